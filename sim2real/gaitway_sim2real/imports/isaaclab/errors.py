"""The error of this package."""

from gaitway_files.errors import UserError


class IsaacLabImportError(UserError):
    """An Isaac Lab run that cannot become a bundle: the cause and the fix."""
