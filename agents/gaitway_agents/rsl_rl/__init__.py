"""rsl-rl-lib's own learner, and its checkpoints."""
