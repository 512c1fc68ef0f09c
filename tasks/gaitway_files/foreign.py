"""Calls of environments that somebody else wrote: what they raise is named, and none is waited for without an end."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import NotDone, Stopped, UserError
from .reading import one_line

CALL_LIMIT = 600.0
"""Longest call without another limit [s]."""
TELL_AFTER = 60.0
"""Time after which a call that has not returned is told of [s]."""
LOOK = 0.5
"""Time between two looks at the calls [s]."""

OURS = (NotDone, UserError, MemoryError, Stopped)
"""What says enough already, and goes its way."""


class BrokenEnvironmentError(NotDone):
    """An environment that raised or gave what cannot be used; names it, the call, and the term with its value."""

    is_named = False


class EnvironmentRaised(BrokenEnvironmentError):
    """What an environment raised, as ``raised KeyError: ...``, with the place in its code, and its name once known."""

    def __init__(self, text: object, place: str = ""):
        if isinstance(text, EnvironmentRaised):  # Gymnasium makes an error of its processes anew
            text, place = text.args
        super().__init__(text, place)

    def __str__(self) -> str:
        return f"{self.args[0]}{self.args[1]}"

    def named(self, environment: str, call: str) -> EnvironmentRaised:
        """The same, of an environment and a call such as "step 5"."""
        return EnvironmentRaised(f"environment {environment} {self.args[0]} ({call})", self.args[1])


def raised(error: BaseException) -> EnvironmentRaised:
    """The error to raise for one of an environment's code. Raises those that are :data:`OURS`, such as signals."""
    if isinstance(error, OURS):
        raise error
    said = f": {one_line(error)}" if str(error) else ""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f", in {Path(frame.filename).name}, line {frame.lineno}"
    return EnvironmentRaised(f"raised {type(error).__name__}{said}", place)


class OverdueError(BaseException):
    """Raised in a thread whose call of an environment takes too long; no ``except Exception`` there catches it."""


THEIRS = (Exception, SystemExit, OverdueError)
"""What may come out of a call of an environment, beside signals."""


def named(error: BaseException, environment: str, call: str) -> BrokenEnvironmentError:
    """The error to raise for one of a call of an environment, such as "step 5". Raises those that are :data:`OURS`."""
    if isinstance(error, OverdueError):
        text = f"environment {environment} does not return from its {call}; raise task.call_time_limit if it takes long"
        found = BrokenEnvironmentError(text)
    else:
        found = error if isinstance(error, BrokenEnvironmentError) else raised(error)
        if found.is_named:
            return found
        if isinstance(found, EnvironmentRaised):
            found = found.named(environment, call)
        else:
            found = BrokenEnvironmentError(f"{found} ({call} of {environment})")
    found.is_named = True
    return found


@contextmanager
def calling(environment: str, call: str, limit: float = CALL_LIMIT) -> Iterator[None]:
    """Context of a call of an environment's code, such as "constructor": what it raises is :func:`named`.

    A call of more than ``limit`` seconds is interrupted, if it is Python or waits for something.
    """
    begin(environment, call, limit)
    try:
        yield
    except THEIRS as error:
        raise named(error, environment, call) from error
    finally:
        end()


# ---- time limits -----------------------------------------------------------------------------------------------------

_calls: dict[int, list[Any]] = {}
"""Of each thread that is in a call: seconds so far, the environment, the call, and its limit [s]."""
_watcher: threading.Thread | None = None


def begin(environment: str, call: str, limit: float) -> None:
    """This thread calls an environment's code. :func:`end` must follow."""
    if _watcher is None or not _watcher.is_alive():
        _watch()
    _calls[threading.get_ident()] = [0.0, environment, call, limit]


def end() -> None:
    """The call of this thread has returned."""
    _calls.pop(threading.get_ident(), None)


def _watch() -> None:
    """Start the thread that looks at the calls."""
    global _watcher
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGURG) == signal.SIG_DFL:  # which does nothing, and nobody else uses
        signal.signal(signal.SIGURG, _interrupted)
    _watcher = threading.Thread(target=_look, name="calls of environments", daemon=True)
    _watcher.start()


def _interrupted(number: int, frame: object) -> None:
    if threading.get_ident() in _calls:
        raise OverdueError


def _look() -> None:
    """Counts looks, not time: a process that was stopped for a while has waited for nothing."""
    never = threading.Event()
    while not never.wait(LOOK):
        for thread, entry in list(_calls.items()):
            before, environment, call, limit = entry
            entry[0] = taken = before + LOOK
            if taken > limit:
                _interrupt(thread)
            elif before < TELL_AFTER <= taken:
                text = f"{environment}: its {call} has taken {taken:.0f} s; it is given up after {limit:.0f} s"
                print(text, file=sys.stderr, flush=True)


def _interrupt(thread: int) -> None:
    """Raise :class:`OverdueError` in a thread: by a signal in the main one, which may wait in the system."""
    if thread == threading.main_thread().ident and signal.getsignal(signal.SIGURG) is _interrupted:
        signal.pthread_kill(thread, signal.SIGURG)
    else:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(OverdueError))
