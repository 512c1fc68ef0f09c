"""The error of this package."""


class IsaacLabImportError(ValueError):
    """A run of Isaac Lab that cannot become a bundle: what is in the way, and what to do about it."""
