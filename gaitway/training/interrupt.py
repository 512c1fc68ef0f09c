"""Stop at a good moment: a training looks between iterations whether it was told to stop; others undo and end.

Told it is by Ctrl-C and SIGTERM, by SIGHUP when its terminal or ssh goes (not under nohup), and by SIGUSR1, by which
Slurm warns of the end of its time (``--signal=USR1@60``).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gaitway_files.errors import Stopped

ONCE = (signal.SIGHUP, signal.SIGUSR1)
"""Signals that come more than once, from a shell and from the system, and do not mean more then."""
STOPS = (signal.SIGINT, signal.SIGTERM, *ONCE)


class StopRequest:
    """``signal`` is the signal that asked for a stop, if one did."""

    signal: signal.Signals | None = None

    @property
    def exit_code(self) -> int:
        """Exit code that a shell reports for a process ended by this signal."""
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Context in which the first signal is only noted; a second Ctrl-C or SIGTERM acts as usual.

    Signals come to the main thread alone: in any other, nothing is noted.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    previous = {number: signal.getsignal(number) for number in STOPS}
    if previous[signal.SIGHUP] == signal.SIG_IGN:  # by nohup
        del previous[signal.SIGHUP]

    def note(number: int, frame: FrameType | None) -> None:
        request.signal = request.signal or signal.Signals(number)
        for other in previous.keys() - ONCE:
            signal.signal(other, previous[other])

    for number in previous:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Context in which SIGTERM and SIGHUP are exceptions, so that clean-up runs; the exit codes are 143 and 129."""

    def leave(number: int, frame: FrameType | None) -> None:
        signal.signal(number, previous[signal.Signals(number)])
        raise Stopped(128 + number)

    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    heard = [number for number, handler in previous.items() if handler != signal.SIG_IGN]
    for number in heard:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, previous[number])
