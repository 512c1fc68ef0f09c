"""Simulators of robots, one row each."""
