"""Property tests draw the same examples on every machine and run."""

from hypothesis import settings

settings.register_profile("deterministic", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("deterministic")
