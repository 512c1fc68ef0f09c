"""Interface to a place of published bundles: a folder, a file server or the Hugging Face hub."""

from __future__ import annotations

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
    """One published bundle. ``name`` is its own, ``group`` its owner or server: both are plain names of folders."""

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
