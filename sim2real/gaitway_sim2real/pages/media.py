"""Pictures and films inside a page."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path


def picture(jpeg: bytes, text: str) -> str:
    return f'<img alt="{escape(text)}" src="{_data("image/jpeg", jpeg)}">'


def film(source: Path | str, start: float = 0.0) -> str:
    """A film that is part of the page, or that lies beside it if ``source`` is text; seen from ``start`` [s]."""
    where = source if isinstance(source, str) else _data("video/mp4", source.read_bytes())
    at = f"#t={start:g}" if start else ""
    return f'<video controls muted loop playsinline preload="auto" src="{escape(where)}{at}"></video>'


def _data(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
