"""Agents with one number per state and action: exact planning on a known model, and learning from samples."""
