"""Stop at a good moment: a training looks between iterations whether Ctrl-C or SIGTERM came; others undo and end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """``signal`` is the signal that asked for a stop, if one did."""

    signal: signal.Signals | None = None

    @property
    def exit_code(self) -> int:
        """Exit code that a shell reports for a process ended by this signal."""
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Context in which the first signal is only noted; a second one acts as usual.

    Signals come to the main thread alone: in any other, nothing is noted.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:
        request.signal = signal.Signals(number)
        for other, handler in previous.items():
            signal.signal(other, handler)

    for number in previous:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Context in which SIGTERM is an exception, so that clean-up runs; the exit code is 143."""

    def leave(number: int, frame: FrameType | None) -> None:
        signal.signal(number, previous)
        raise SystemExit(128 + number)

    previous = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
