"""Waiting for a thread that may die: of no memory, between two pieces of work, where no result says so."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from gaitway_files.errors import NotDone

T = TypeVar("T")
LOOK = 1.0
"""Time between two looks at whether the threads live [s]."""


class ThreadDied(NotDone):
    """A thread that others wait for is no more."""


def result_of(future: Future[T], pool: ThreadPoolExecutor) -> T:
    """Result of the work; raises its exception, or :class:`ThreadDied` if a thread of its pool died."""
    while True:
        try:
            return future.result(LOOK)
        except TimeoutError:
            if future.done():
                return future.result()  # it was the work that timed out
            dead = [thread.name for thread in pool._threads if not thread.is_alive()]
            if dead:
                raise ThreadDied(
                    f"the thread {dead[0]} died before its work was done: as a rule, for want of memory; make the "
                    "task, the model or the batch smaller"
                ) from None
