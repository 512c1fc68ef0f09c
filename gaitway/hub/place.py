"""Interface to a place of published bundles: a folder, a file server or the Hugging Face hub."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gaitway_files.errors import NotDone, UserError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
Heard = Callable[[int], None]
"""Called with the number of bytes after each piece."""


class PlaceError(UserError):
    """A place that is not one, or whose files are not what they should be."""


class Unreachable(NotDone):
    """A place that does not answer, or not in time."""


class Place(Protocol):
    """One published bundle.

    ``group`` and ``name`` are names of folders in the library. No two places share both.
    """

    group: str
    name: str

    def names(self) -> list[str] | None:
        """Names of all that lies there, to find what the index does not name; None where nobody can list it."""

    def fetch(self, name: str, most: int, heard: Heard = lambda count: None) -> bytes:
        """The file ``name`` of at most ``most`` bytes; raises :class:`PlaceError` or :class:`Unreachable`."""

    def put(self, folder: Path, note: str) -> str:
        """Publish the files of ``folder``, and nothing besides, in one step; returns where it is now."""


def plain_name(text: str) -> str:
    """``text`` as the name of a folder."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text).lstrip(".")[:96] or "bundle"


def own_name(text: str) -> str:
    """``text`` as the name of a folder that no other text has.

    >>> own_name("walk"), own_name("walk 2")
    ('walk', 'walk_2+9d552509')
    """
    return text if plain_name(text) == text else numbered(text, text)


def numbered(text: str, whole: str) -> str:
    """``text`` as the name of a folder, with a number for ``whole``; no owner on the hub has a + in the name."""
    return f"{plain_name(text)}+{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
