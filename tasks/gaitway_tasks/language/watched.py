"""Calls of code that is not ours, each with a time limit."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from gaitway_files.errors import NotDone, UserError

LIMIT = 60.0
"""Longest time of a step without another limit [s]."""


class EnvironmentFailedError(NotDone):
    """An environment that raised, hung, or returned what is no turn; the message names it and what it was told."""


class OverdueError(Exception):
    """A call of ``owner`` has not returned."""

    def __init__(self, owner: int):
        super().__init__(owner)
        self.owner = owner


class RaisedError(Exception):
    """A call of ``owner`` raised ``error``."""

    def __init__(self, owner: int, error: BaseException):
        super().__init__(owner, error)
        self.owner, self.error = owner, error


class Workers:
    """``count`` threads that make calls. One thread makes all calls of an owner, so that what one opened another may
    use.

    After a call that raised, or that took longer than ``limit`` [s], no further one is made.
    """

    def __init__(self, limit: float, count: int = 1):
        self.limit, self.count = limit, count
        self._calls: list[queue.SimpleQueue[tuple[int, Callable[[], Any]] | None]] = [
            queue.SimpleQueue() for _ in range(count)
        ]
        self._results: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
        self._begun: dict[int, tuple[int, float]] = {}
        """Owner and time [s] of the call that a thread is making."""
        self._ended = False

    def submit(self, owner: int, call: Callable[[], Any]) -> None:
        """Have a call made after the earlier ones of its thread, which is the same for every call of ``owner``."""
        self._calls[owner % self.count].put((owner, call))

    def next(self, *, wait: bool = True) -> tuple[int, Any] | None:
        """Owner and result of the next call that returns; without ``wait`` None where none has.

        Raises :class:`OverdueError` or :class:`RaisedError`.
        """
        while True:
            now = time.monotonic()
            oldest = min(list(self._begun.values()), key=lambda begun: begun[1], default=(0, now))
            left = max(0.0, oldest[1] + self.limit - now)
            try:
                owner, result, error = self._results.get(timeout=left if wait else 0.0)
            except queue.Empty:
                if not left:
                    self._ended = True
                    raise OverdueError(oldest[0]) from None
                if not wait:
                    return None
                continue
            if error is not None:
                raise RaisedError(owner, error) from error
            return owner, result

    def __enter__(self) -> Self:
        for number in range(self.count):
            threading.Thread(target=self._work, args=(number,), name=f"environments {number}", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        for calls in self._calls:
            calls.put(None)

    def _work(self, number: int) -> None:
        while (item := self._calls[number].get()) is not None:
            if self._ended:
                continue
            owner, call = item
            self._begun[number] = owner, time.monotonic()
            try:
                outcome: tuple[int, Any, BaseException | None] = owner, call(), None
            except BaseException as error:
                self._ended = True
                outcome = owner, None, error
            del self._begun[number]
            self._results.put(outcome)


def watched(workers: Workers, calls: Mapping[int, Callable[[], Any]], what: Callable[[int], str]) -> dict[int, Any]:
    """Results of a call of each owner, named by ``what``. Raises :class:`EnvironmentFailedError`."""
    for owner, call in calls.items():
        workers.submit(owner, call)
    found: dict[int, Any] = {}
    with explained(workers, what):
        while len(found) < len(calls):
            came = workers.next()
            assert came is not None
            found[came[0]] = came[1]
    return found


@contextmanager
def explained(workers: Workers, what: Callable[[int], str]) -> Iterator[None]:
    """Context in which failures of calls become :class:`EnvironmentFailedError`; ``what`` names an owner's call."""
    try:
        yield
    except OverdueError as overdue:
        raise EnvironmentFailedError(
            f"{what(overdue.owner)} has not returned after {workers.limit:g} s: look for what it waits for, or raise "
            "task.step_time_limit"
        ) from None
    except RaisedError as raised:
        if isinstance(raised.error, UserError | NotDone | KeyboardInterrupt):
            raise raised.error from None
        raise EnvironmentFailedError(
            f"{what(raised.owner)} raised {type(raised.error).__name__}: {raised.error}"
        ) from raised.error


def named(env: object) -> str:
    """An environment for people."""
    return f"environment {type(env).__name__}"
