"""Real-time settings of the operating system for a loop, and statistics of its lateness."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

RECEIVING = ("recv", "dq.", "tev")
"""Beginnings of the names of Cyclone's threads that receive, deliver, and mind timeouts."""
PRIORITY = 40
"""Priority of the loop among real-time threads: below the kernel's own interrupt threads (50)."""
SWITCH_INTERVAL = 2e-4
"""Longest time for which another Python thread may keep the loop waiting [s]."""
PERIODS = 1 << 20
"""Kept for the report; older ones are overwritten. Half an hour at 500 Hz."""
LOCK_CURRENT_AND_FUTURE = 3  # mlockall(MCL_CURRENT | MCL_FUTURE)


@contextlib.contextmanager
def realtime() -> Iterator[tuple[str, ...]]:
    """Make this thread hard to interrupt, as far as allowed; gives notes of what was refused, and how to allow it.

    No garbage collection, memory locked against paging, real-time scheduling; all of it undone at the end.
    """
    notes = []
    interval, collecting = sys.getswitchinterval(), gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(SWITCH_INTERVAL)
    if not _libc("mlockall", LOCK_CURRENT_AND_FUTURE):
        notes.append("memory may be paged out: 'ulimit -l unlimited' lets it be locked")
    try:
        with prioritised(PRIORITY) as allowed:
            if not allowed:
                notes.append(
                    "no real-time scheduling: run as root, or give this user an rtprio in /etc/security/limits.conf"
                )
            yield tuple(notes)
    finally:
        _libc("munlockall")
        sys.setswitchinterval(interval)
        gc.unfreeze()
        if collecting:
            gc.enable()


@contextlib.contextmanager
def prioritised(priority: int) -> Iterator[bool]:
    """:func:`prioritise`, and as before at the end; gives False if it is not allowed.

    So are the threads that bring DDS's messages into this process, as far as there are any by now: a loop that is on
    time learns of nothing while they wait for a busy machine.
    """
    threads = [0, *_receiving()]
    before = [(thread, os.sched_getscheduler(thread), os.sched_getparam(thread)) for thread in threads]
    try:
        allowed = [prioritise(priority, thread) for thread in threads]
        yield all(allowed)
    finally:
        for thread, policy, parameter in before:
            with contextlib.suppress(OSError):
                os.sched_setscheduler(thread, policy, parameter)


def prioritise(priority: int, thread: int = 0) -> bool:
    """Schedule a thread, the calling one by default, before all ordinary ones; False if that is not allowed."""
    try:
        os.sched_setscheduler(thread, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
    except OSError:
        return False
    return True


def _receiving() -> list[int]:
    """Ids of this process's threads that belong to Cyclone and handle what arrives, by the names it gives them."""
    found = []
    for task in Path("/proc/self/task").glob("*"):
        with contextlib.suppress(OSError):
            if (task / "comm").read_text().startswith(RECEIVING):
                found.append(int(task.name))
    return found


def _libc(function: str, *arguments: int) -> bool:
    try:
        return getattr(ctypes.CDLL(None), function)(*arguments) == 0
    except (OSError, AttributeError):
        return False


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Timing of a loop."""

    period: float
    """Requested period [s]."""
    period_error: NDArray[np.float32]
    """Difference between the time from one start to the next and ``period``, in the newest periods [s]."""
    busy: NDArray[np.float32]
    """Time from the start of a period to its command, in the same periods [s]."""
    cpu: float
    """CPU time of all threads of this process while the loop ran, as a share of one core."""
    notes: tuple[str, ...] = ()
    """Real-time settings that the operating system refused."""

    def summary(self) -> str:
        if not len(self.period_error):
            return "no period was timed"
        p50, p99, worst = 1e3 * np.percentile(self.period_error, [50, 99, 100])
        busy50, busy99 = 1e3 * np.percentile(self.busy, [50, 99])
        return (
            f"{1 / self.period:.0f} Hz: period error {p50:.3f} ms median, {p99:.3f} ms p99, {worst:.2f} ms at most; "
            f"busy {busy50:.3f} ms median, {busy99:.3f} ms p99; {100 * self.cpu:.0f} % of a core"
        )


class Stopwatch:
    """Collects a :class:`Timing` without allocating anything on the way."""

    def __init__(self, period: float):
        self.period = period
        self._error, self._busy = np.zeros(PERIODS, np.float32), np.zeros(PERIODS, np.float32)
        self._count, self._begun = 0, 0.0
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def begin(self) -> None:
        now = time.perf_counter()
        if self._begun:
            self._error[self._count % PERIODS] = abs(now - self._begun - self.period)
            self._count += 1
        self._begun = now

    def end(self) -> None:
        self._busy[self._count % PERIODS] = time.perf_counter() - self._begun

    def timing(self, notes: tuple[str, ...] = ()) -> Timing:
        kept = min(self._count, PERIODS)
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return Timing(
            period=self.period,
            period_error=self._error[:kept].copy(),
            busy=self._busy[:kept].copy(),
            cpu=cpu / max(wall, 1e-9),
            notes=notes,
        )
