"""Kinds of tasks: robots, gyms, games and texts."""
