"""Processes that end with the one that started them, also when that one is killed and cannot tell them.

The kernel sends the signal when the *thread* that started a process ends: start them from one that lives as long.
Other systems than Linux have no such signal, and there a process that is left behind ends by itself or not at all.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

_DEATH_SIGNAL = 1


def end_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Send this process the signal ``number`` when process ``parent``, which started it, ends; now if it has ended."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def ending_with_us(command: Sequence[str], number: int = signal.SIGKILL) -> list[str]:
    """A command line that runs ``command`` in the same process, which gets the signal ``number`` when this one ends."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(int(number)), *command]


@contextmanager
def worker_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """``jobs`` new processes. They end with this one, and at once if the block is left by an exception."""
    import multiprocessing  # heavy for those who only end with their parent
    from concurrent.futures import ProcessPoolExecutor

    others = set(multiprocessing.active_children())
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=spawn, initializer=end_with_parent, initargs=(os.getpid(),)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - others:
                process.kill()
            raise


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]), int(sys.argv[2]))
    os.execvp(sys.argv[3], sys.argv[3:])
