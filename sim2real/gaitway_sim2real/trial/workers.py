"""Tasks side by side in processes, each done by one of them alone, so that nothing depends on how many there are."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from typing import Any, Generic, TypeVar

from gaitway_files.children import worker_pool
from gaitway_files.errors import NotDone

Task = TypeVar("Task")
Result = TypeVar("Result")


class WorkerError(NotDone):
    """A process that ended before its task did."""


class Workers(Generic[Task, Result]):
    """``count`` processes that call ``start(*given)`` once, and what it returns with every task.

    With a count of one, tasks are done by this process. Otherwise everything that comes and goes must be picklable.
    """

    def __init__(self, count: int, start: Callable[..., Callable[[Task], Result]], *given: Any) -> None:
        self.count, self._start, self._given = count, start, given

    def __enter__(self) -> Workers[Task, Result]:
        self._stack = ExitStack()
        self._pool: ProcessPoolExecutor | None = None
        self._tasks: dict[Future[Result], Task] = {}
        self._here: list[Task] = []
        if self.count == 1:
            self._work = self._start(*self._given)
        else:
            self._pool = self._stack.enter_context(worker_pool(self.count))
            for _ in range(self.count):  # they start while this process still gets ready
                self._pool.submit(_begin, self._start, self._given)
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def submit(self, tasks: Sequence[Task]) -> None:
        """Tasks to be done after those given before."""
        if self._pool is None:
            self._here += tasks
            return
        for task in tasks:
            self._tasks[self._pool.submit(_do, self._start, self._given, task)] = task

    def stop(self) -> None:
        """Drop all tasks, those that are being done as well: no other result comes."""
        self._here.clear()
        self._tasks.clear()
        enough = WorkerError("no more results are wanted")
        self._stack.pop_all().__exit__(type(enough), enough, None)  # which ends processes at once

    def results(self) -> Iterator[tuple[Task, Result]]:
        """Tasks and their results as they come, until there is no other; more may be submitted meanwhile.

        Raises what a task raised, and :class:`WorkerError`.
        """
        while self._here:
            task = self._here.pop(0)
            yield task, self._work(task)
        while self._tasks:
            done, _ = wait(self._tasks, return_when=FIRST_COMPLETED)
            for future in done:
                task = self._tasks.pop(future)
                try:
                    result = future.result()
                except BrokenProcessPool as error:
                    raise WorkerError(
                        "a process of the validation was ended, perhaps for want of memory: free some, or leave fewer "
                        "cores to it (taskset -c 0)"
                    ) from error
                yield task, result


_started: dict[Callable[..., Any], Callable[[Any], Any]] = {}


def _begin(start: Callable[..., Callable[[Any], Any]], given: tuple[Any, ...]) -> None:
    """Start this process, unless it has been. Ctrl-C and a closed terminal are the business of the process above."""
    if start not in _started:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _started[start] = start(*given)


def _do(start: Callable[..., Callable[[Any], Any]], given: tuple[Any, ...], task: Any) -> Any:
    """One task; raises what the start raised."""
    _begin(start, given)
    return _started[start](task)
