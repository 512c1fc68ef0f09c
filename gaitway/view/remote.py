"""What a page has beside viser's controls: a title, keys, a gamepad, sticks for fingers, and a button that records.

``page.js`` is put into viser's page. It says over a WebSocket of its own what is pressed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gaitway_files.errors import UserError
from gaitway_onboard.control.commands import STILL

HERE = Path(__file__).parent
FOLDER = "/gaitway/"
SOCKET = f"{FOLDER}remote"
KINDS = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
FILES = ("controls.css", "controls.js", "page.css", "page.js")
PUSHES = {"ahead": (1.0, 0.0), "back": (-1.0, 0.0), "left": (0.0, 1.0), "right": (0.0, -1.0)}
"""Ways to push a robot: forward and left."""
SILENT_S = 1.0
"""A stick of which nothing is heard for so long [s] has been let go, as its page may be gone."""
LONGEST = 1000
"""Characters of a message."""
HEAD = f"""<link rel="stylesheet" href="{FOLDER}controls.css"><link rel="stylesheet" href="{FOLDER}page.css">"""
SCRIPT = f"""<script type="module" src="{FOLDER}page.js"></script>"""


class Remote:
    """What pages say, for the one thread that steers: sticks, and what was asked for."""

    def __init__(self, title: str) -> None:
        self.asked: deque[str] = deque(maxlen=20)
        """Ways to push, or "again"; oldest first."""
        self.dark: bool | None = None
        """True if the page that spoke last is dark; None before any has."""
        self._told = {"title": title, "detail": "", "steers": False}
        self._stick: tuple[tuple[float, float, float], float] | None = None
        self._open: set[Any] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def tell(self, title: str, detail: str, *, steers: bool) -> None:
        """Show a title with details; pages that steer have keys and sticks."""
        self._told = {"title": title, "detail": detail, "steers": steers}
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._spread)

    def _spread(self) -> None:
        from websockets.asyncio.server import broadcast

        broadcast(self._open, json.dumps(self._told))

    def shares(self) -> tuple[float, float, float] | None:
        """Forward, left and turn left, each in [-1, 1] of the largest command; None while nothing is pressed.

        The first call after a release returns zeros.
        """
        if (stick := self._stick) is None:
            return None
        shares, heard = stick
        if time.monotonic() - heard > SILENT_S:
            shares = STILL
        if not any(shares):
            self._stick = None
        return shares

    def hear(self, text: str | bytes) -> None:
        """Take a message of a page; one that no page of ours sends raises :class:`UserError` or ValueError."""
        if not isinstance(text, str) or len(text) > LONGEST:
            raise UserError("no message of a page")
        match json.loads(text):
            case {"steer": [*shares]} if len(shares) == 3 and all(map(_is_share, shares)):
                self._stick = (float(shares[0]), float(shares[1]), float(shares[2])), time.monotonic()
            case {"push": str(way)} if way in PUSHES:
                self.asked.append(way)
            case {"again": True}:
                self.asked.append("again")
            case {"dark": bool(dark)}:
                self.dark = dark
            case _:
                raise UserError("no message of a page")

    async def listen(self, connection: Any) -> None:
        """Talk with one page until it goes."""
        from websockets.exceptions import ConnectionClosed

        self._loop = asyncio.get_running_loop()
        self._open.add(connection)
        try:
            await connection.send(json.dumps(self._told))
            async for text in connection:
                self.hear(text)
        except (ConnectionClosed, ValueError, RecursionError):
            await connection.close(1008)
        finally:
            self._open.discard(connection)


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1.0 <= value <= 1.0


def is_socket(path: str) -> bool:
    """True if a request with this path is for :meth:`Remote.listen`."""
    return urlsplit(path).path == SOCKET


def file_of(connection: Any, path: str) -> Any:
    """Answer with one of the page's own files; None for another path."""
    folder, _, name = urlsplit(path).path.rpartition("/")
    if f"{folder}/" != FOLDER or name not in FILES:
        return None
    file = HERE / name
    answer = connection.respond(HTTPStatus.OK, file.read_text("utf-8"))
    del answer.headers["Content-Type"]
    answer.headers["Content-Type"] = KINDS[file.suffix]
    return answer


def with_page(answer: Any) -> None:
    """Put the page's script into an HTML answer, which must not be compressed."""
    if not answer.headers.get("Content-Type", "").startswith("text/html"):
        return
    head, end, rest = bytes(answer.body).rpartition(b"</head>")
    body, close, after = rest.rpartition(b"</body>")
    answer.body = head + HEAD.encode() + end + body + SCRIPT.encode() + close + after
    del answer.headers["Content-Length"]
    answer.headers["Content-Length"] = str(len(answer.body))
