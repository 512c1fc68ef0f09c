"""Places by what the user calls them: ``file:path``, ``https://...`` and ``hf:OWNER/NAME``."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from .place import LOOPBACK, Place, PlaceError

FORMS = "hf:OWNER/NAME, file:path or https://..."


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
