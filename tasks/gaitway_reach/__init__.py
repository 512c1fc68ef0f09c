"""Reaching: the family of tasks in which an arm brings its hand to poses."""
