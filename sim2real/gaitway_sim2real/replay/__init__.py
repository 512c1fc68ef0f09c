"""Replay of a recorded flight: a summary, a page of plots, the motion in 3-D, and the same commands in MuJoCo."""
