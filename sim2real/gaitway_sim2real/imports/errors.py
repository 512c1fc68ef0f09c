"""The error of this package."""

from gaitway_files.errors import UserError


class PolicyImportError(UserError):
    """A policy of others that cannot become a bundle: the cause and the fix."""
