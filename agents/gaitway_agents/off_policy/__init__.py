"""Companions that learn from a replay buffer: deep Q-networks and soft actor-critic."""
