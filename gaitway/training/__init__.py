"""The training loop, its examinations and its progress."""
