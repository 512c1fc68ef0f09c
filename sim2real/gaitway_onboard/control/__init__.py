"""The loop that drives a robot."""
