"""Calls of code that is not ours, each with a time limit."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from gaitway_files.errors import NotDone, UserError

LIMIT = 60.0
"""Longest time of a step without another limit [s]."""


class EnvironmentFailedError(NotDone):
    """An environment that raised, hung, or returned what is no turn; the message names it and what it was told."""


class OverdueError(Exception):
    """Call ``number`` has not returned."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


class RaisedError(Exception):
    """Call ``number`` raised ``error``."""

    def __init__(self, number: int, error: BaseException):
        super().__init__(number, error)
        self.number, self.error = number, error


class Worker:
    """One thread that makes calls in order, so that what one call opened another may use.

    It is abandoned once a call takes longer than ``limit`` [s].
    """

    def __init__(self, limit: float):
        self.limit = limit
        self._calls: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def each(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """Results of all calls. Raises :class:`OverdueError` or :class:`RaisedError` for the first without one."""
        found = []
        for number, call in enumerate(calls):
            self._calls.put(call)
            try:
                result, error = self._results.get(timeout=self.limit)
            except queue.Empty:
                raise OverdueError(number) from None
            if error is not None:
                raise RaisedError(number, error) from error
            found.append(result)
        return found

    def __enter__(self) -> Self:
        threading.Thread(target=self._work, name="environments", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                self._results.put((call(), None))
            except BaseException as error:
                self._results.put((None, error))


def watched(worker: Worker, calls: Sequence[Callable[[], Any]], what: Callable[[int], str]) -> list[Any]:
    """Results of calls of environments, named by ``what``. Raises :class:`EnvironmentFailedError`."""
    try:
        return worker.each(calls)
    except OverdueError as overdue:
        raise EnvironmentFailedError(
            f"{what(overdue.number)} has not returned after {worker.limit:g} s: look for what it waits for, or raise "
            "task.step_time_limit"
        ) from None
    except RaisedError as raised:
        if isinstance(raised.error, UserError | NotDone | KeyboardInterrupt):
            raise raised.error from None
        raise EnvironmentFailedError(
            f"{what(raised.number)} raised {type(raised.error).__name__}: {raised.error}"
        ) from raised.error


def named(env: object) -> str:
    """An environment for people."""
    return f"environment {type(env).__name__}"
