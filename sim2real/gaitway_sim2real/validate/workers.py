"""Scenarios side by side: each is run by one thread of one process, so that nothing depends on how many there are.

A worker is a Python of its own that reads tasks from a pipe and writes results to another. It ends when its pipe does,
however the process that started it ended; the main module is not imported again, as ``multiprocessing`` would.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")
SERVE = "from gaitway_sim2real.validate.workers import serve; serve()"


class WorkerError(RuntimeError):
    """A worker that ended before its task did."""


class Workers(Generic[Task, Result]):
    """``count`` processes that call ``start(*given)`` once, and what it returns with every task.

    ``start`` is found by its name in each process, and everything that comes and goes must be picklable. With a count
    of one, tasks are run by this process.
    """

    def __init__(self, count: int, start: Callable[..., Callable[[Task], Result]], *given: Any) -> None:
        self.count, self._start, self._given = count, start, given

    def __enter__(self) -> Workers[Task, Result]:
        self._tasks: dict[Future[Result], Task] = {}
        self._here: list[Task] = []
        self._work: Callable[[Task], Result] | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        if self.count == 1:
            self._work = self._start(*self._given)
            return self
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(self.count)
        for _ in range(self.count):
            process = _spawn()
            self._processes.append(process)
            assert process.stdin is not None
            pickle.dump((self._start, self._given), process.stdin)
            self._idle.put(process)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for process in self._processes:
            if kind is not None:
                process.kill()
            with suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()
        if self._processes:
            self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def submit(self, tasks: Sequence[Task]) -> None:
        """Tasks to be done after those given before."""
        if self._work is not None:
            self._here += tasks
        else:
            self._tasks.update({self._threads.submit(self._ask, task): task for task in tasks})

    def results(self) -> Iterator[tuple[Task, Result]]:
        """Tasks and their results as they come, until there is no other; more may be submitted meanwhile.

        Raises what a task raised, and :class:`WorkerError`.
        """
        while self._here and self._work is not None:
            task = self._here.pop(0)
            yield task, self._work(task)
        while self._tasks:
            done, _ = wait(self._tasks, return_when=FIRST_COMPLETED)
            for future in done:
                yield self._tasks.pop(future), future.result()

    def _ask(self, task: Task) -> Result:
        process = self._idle.get()
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump(task, process.stdin)
            process.stdin.flush()
            result, error = pickle.load(process.stdout)
        except (EOFError, OSError, ValueError) as broken:
            raise WorkerError(
                f"a process of the validation ended with {process.wait()}, perhaps for want of memory: validate with "
                "fewer processes"
            ) from broken
        finally:
            self._idle.put(process)
        if error is not None:
            raise error
        found: Result = result
        return found


def _spawn() -> subprocess.Popen[bytes]:
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )


def serve() -> None:
    """The life of a worker. Ctrl-C is the business of the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tasks, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints is no result
    with suppress(EOFError, BrokenPipeError):
        start, arguments = pickle.load(tasks)
        work, broken = _tried(partial(start, *arguments))
        while True:
            task = pickle.load(tasks)
            pickle.dump((None, broken) if broken else _tried(partial(work, task)), results)
            results.flush()


def _tried(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What ``call`` returned or raised. An error that nobody foresaw takes its traceback along, as text."""
    try:
        return call(), None
    except Exception as error:
        foreseen = type(error).__module__.startswith("gaitway") or isinstance(error, OSError | MemoryError)
        if foreseen:
            with suppress(Exception):
                return None, pickle.loads(pickle.dumps(error))
        return None, RuntimeError(f"in a process of the validation:\n{traceback.format_exc()}")
