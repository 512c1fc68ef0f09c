"""Calls of environments that somebody else wrote: what they raise is named, and is no bug of ours."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import NotDone, Stopped, UserError
from .reading import one_line

OURS = (NotDone, UserError, MemoryError, Stopped)
"""What says enough already, and goes its way."""


class BrokenEnvironmentError(NotDone):
    """An environment that raised or gave what cannot be used; names it, the call, and the term with its value."""


class EnvironmentRaised(BrokenEnvironmentError):
    """What an environment raised, as ``raised KeyError: ...``, with the place in its code, and its name once known."""

    def __init__(self, text: object, place: str = ""):
        if isinstance(text, EnvironmentRaised):  # Gymnasium makes an error of its processes anew
            text, place = text.args
        super().__init__(text, place)

    def __str__(self) -> str:
        return f"{self.args[0]}{self.args[1]}"

    def named(self, environment: str, call: str) -> EnvironmentRaised:
        return EnvironmentRaised(f"environment {environment} {self.args[0]} ({call})", self.args[1])


def raised(error: BaseException) -> EnvironmentRaised:
    """The error to raise for one of an environment's code. Raises those that are :data:`OURS`, such as signals."""
    if isinstance(error, OURS):
        raise error
    said = f": {one_line(error)}" if str(error) else ""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f", in {Path(frame.filename).name}, line {frame.lineno}"
    return EnvironmentRaised(f"raised {type(error).__name__}{said}", place)


def named(error: BaseException, environment: str, call: str) -> Exception:
    """The error to raise for one of a call of an environment, such as "step 5". Raises those that are :data:`OURS`."""
    if not isinstance(error, BrokenEnvironmentError):
        error = raised(error)
    if isinstance(error, EnvironmentRaised):
        return error.named(environment, call)
    return BrokenEnvironmentError(f"{error} ({call} of {environment})")


@contextmanager
def calling(environment: str, call: str) -> Iterator[None]:
    """Context of a call of an environment's code, such as "constructor": what it raises is :func:`named`."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise named(error, environment, call) from error
