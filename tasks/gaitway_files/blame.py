"""Blame of other packages' code: what it raises is told in one sentence, with its place."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .errors import UserError
from .trust import is_own


@contextmanager
def blamed(what: str, code: Any) -> Iterator[None]:
    """Within the block ``code``, a function or a class, runs as ``what``; what it raises becomes a `UserError`.

    What goes wrong in code of ours is a fault of ours.
    """
    if is_own(code.__module__):
        yield
        return
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        file = getattr(sys.modules.get(code.__module__), "__file__", None)
        raise UserError(
            f"{what} ({code.__module__}:{getattr(code, '__qualname__', 'callable')}) failed: {type(error).__name__}: "
            f"{error}{place_of(error, file)}"
        ) from error


def place_of(error: Exception, file: str | None) -> str:
    """Where an exception was raised, ", in FILE, line N: CODE": the innermost place in ``file``, if it is there."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    at = next(reversed([frame for frame in frames if frame.filename == file] or frames), None)
    return "" if at is None else f", in {at.filename}, line {at.lineno}: {at.line}"
