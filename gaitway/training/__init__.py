"""The training loop, its evaluations and its progress."""
