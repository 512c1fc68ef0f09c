"""Errors of settings and runs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from gaitway_files.errors import UserError

MAX_SEED = 10**9
"""Every simulator takes a seed of 31 bits, and what is random beside it is seeded a little above."""


class ConfigError(UserError):
    """A setting that is unknown, of the wrong type, or makes no sense beside the others."""


class RunError(UserError):
    """A run folder that cannot be created, read, continued or written to."""


def nearest(name: str, known: Iterable[str], cutoff: float = 0.4) -> str | None:
    """The known name closest to ``name``, if any is close: of a likeness from ``cutoff`` to 1."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)
