"""Errors that are messages, which name the thing, the value and the fix. The command line prints their text alone.

Every other error is a bug, and shown with its traceback.
"""


class UserError(ValueError):
    """Something given is wrong: exit code 2."""


class NotDone(RuntimeError):
    """The input was right, and the work could not be done: exit code 1."""


class Stopped(SystemExit):
    """A signal ends the process: not the exit that other people's code may ask for."""
