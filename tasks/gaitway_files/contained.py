"""Try a library on a file of a stranger's in a child process that may be killed, where the library knows no limit."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import resource
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable

from .children import end_with_parent
from .reading import GIB, FileError, one_line, size

SECONDS = 30.0
"""A policy or a robot loads in a tenth of a second; a robot's computer under load may need ten times that."""
MEMORY = 2 * GIB
"""Beyond what this process has."""

_MESSAGE_BYTES = 4096


def contained(
    function: Callable[[], object], name: object, what: str, *, seconds: float = SECONDS, memory: int = MEMORY
) -> None:
    """Run ``function`` in a copy of this process with limits, and throw its work away.

    Raises :class:`FileError`, which says that ``what`` (such as "loading it") of the file called ``name`` took more
    than ``seconds`` [s] or ``memory`` [bytes] or ended the process, or what exception it raised.
    """
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # The copy has none of this process's threads. Were one holding a lock, the clock would end the copy.
        warnings.simplefilter("ignore", DeprecationWarning)
        parent, child = os.getpid(), os.fork()
    if not child:
        _work(function, write, seconds, memory, parent)
    try:
        os.close(write)
        said = _hear(read, seconds)
    finally:
        os.close(read)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if said is None:
        raise FileError(name, f"{what} took more than {seconds:g} s, the most that it may take")
    if said[:1] != b"+":
        reason = said[1:].decode("utf-8", "replace") if said else f"it ended the process ({_why(ended)})"
        raise FileError(name, f"{what} failed within {size(memory)} of memory: {reason}")


def _hear(read: int, seconds: float) -> bytes | None:
    """The child's answer until it closes its end, or None if that takes too long."""
    end, said = time.monotonic() + seconds, b""
    poll = select.poll()
    poll.register(read, select.POLLIN | select.POLLHUP)
    while (left := end - time.monotonic()) > 0:
        if poll.poll(1e3 * left):
            if not (part := os.read(read, _MESSAGE_BYTES)):
                return said
            said += part
            if said[:1] == b"+":
                return said
    return None


def _work(function: Callable[[], object], write: int, seconds: float, memory: int, parent: int) -> None:
    """The child's life."""
    try:
        end_with_parent(parent)
        gc.freeze()  # objects of the original's, with threads that are not here, must not be taken down by this one
        faulthandler.disable()  # an end by a signal is an answer here, not an accident
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        quiet = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(quiet, descriptor)
        used = resource.getrusage(resource.RUSAGE_SELF)  # of this process alone: it starts at zero
        cpu = int(used.ru_utime + used.ru_stime + seconds) + 2
        _limit(resource.RLIMIT_AS, _address_space() + memory)
        _limit(resource.RLIMIT_CPU, cpu)
        _limit(resource.RLIMIT_CORE, 0)
        function()
        os.write(write, b"+")
    except BaseException as error:  # whatever the library raises is what there is to say
        with contextlib.suppress(BaseException):
            os.write(write, b"-" + one_line(error).encode()[: _MESSAGE_BYTES - 1])
    finally:
        os._exit(0)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _why(code: int) -> str:
    return signal.Signals(-code).name if code < 0 and -code in signal.Signals._value2member_map_ else f"code {code}"
