"""The operator's view of a deployment: a line that is kept up to date, and messages above it."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TextIO

from gaitway_files.visible import visible

REFRESH = 0.2  # [s]


class Console:
    """Writes from a thread of its own: a terminal that does not take its text must not hold up the loop.

    Without a terminal there is no line, only messages.
    """

    def __init__(self, stream: TextIO | None = None):
        self._stream = stream or sys.stdout
        self._live = self._stream.isatty()
        self._texts: SimpleQueue[str] = SimpleQueue()
        self._ended = threading.Event()
        self.line: Callable[[], str] = lambda: ""
        """What the line says now."""
        self._thread = threading.Thread(target=self._run, name="console", daemon=True)
        self._thread.start()

    def say(self, text: str) -> None:
        """Takes microseconds."""
        self._texts.put(text)

    def _run(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal has gone, and with it the reader
            while not self._ended.wait(REFRESH):
                self._show()
            self._show()
            self._write("\r\033[K" if self._live else "")

    def _show(self) -> None:
        while True:
            try:
                text = self._texts.get_nowait()
            except Empty:
                break
            self._write(("\r\033[K" if self._live else "") + visible(text) + "\n")
        if self._live:
            self._write("\r\033[K" + visible(self.line()))

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def close(self) -> None:
        """Show what is left to be said."""
        self._ended.set()
        self._thread.join(2.0)

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
