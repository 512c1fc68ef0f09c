"""The error of this package."""


class IsaacLabImportError(ValueError):
    """An Isaac Lab run that cannot become a bundle: the cause and the fix."""
