"""Viewers and films."""
