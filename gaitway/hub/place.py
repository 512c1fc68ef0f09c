"""Where published bundles lie: ``file:/path``, ``https://...`` and ``hf:OWNER/NAME``, behind one interface."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from gaitway_files.errors import NotDone, UserError

FORMS = "hf:OWNER/NAME, file:/path or https://..."
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


def open_place(text: str, *, private: bool = False) -> Place:
    """The place that ``text`` names; raises :class:`PlaceError`."""
    kind, colon, rest = text.partition(":")
    if kind == "hf" and colon:
        from .huggingface import HuggingFacePlace

        return HuggingFacePlace(rest, private=private)
    if private:
        raise PlaceError(f"--private is for hf:OWNER/NAME, not {text}: leave it out")
    if kind == "file" and colon:
        from .folder import FolderPlace

        return FolderPlace(Path(unquote(rest.removeprefix("//"))))
    if kind in ("http", "https") and rest.startswith("//"):
        from .web import WebPlace

        parts = urlsplit(text)
        if parts.username or parts.query or parts.fragment or not parts.hostname:
            raise PlaceError(f"{text}: give the address of the bundle's folder alone, such as https://example.org/walk")
        if kind == "http" and parts.hostname not in LOOPBACK:
            raise PlaceError(f"{text}: http is for this machine only, since anyone between could change it: use https:")
        return WebPlace(text.rstrip("/"))
    raise PlaceError(f"{text!r} is no place of bundles: use {FORMS}")


def plain_name(text: str) -> str:
    """``text`` as the name of a folder."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text).lstrip(".")[:96] or "bundle"
