"""Requests in their order, one thread that carries them out, and their results until the client has them."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gaitway_files.errors import UserError

Result = bytes | dict[str, Any]
"""A protobuf message, or an object of JSON."""

MOST_JOBS, MOST_BYTES = 20_000, 2**29
"""Most requests and results that are kept, and bytes of both; more are put off."""
FETCHED = 512
"""Results that are kept after they were fetched, in case their way back failed."""
FORGOTTEN = 600.0
"""Age of a result that nobody fetched [s] at which it makes room for others."""
LINGER, MOST_LINGER = 0.01, 0.2
"""Pause after which a batch of requests for answers is complete, and the longest wait for it [s]."""
MOST_TOGETHER = 4096


class Busy(UserError):
    """Too much is waiting: come again later."""


class Unknown(UserError):
    """No such session, model, sampler or request: the server may have been started anew."""


class Ended(UserError):
    """A session that its client has ended."""


@dataclass(eq=False)
class Job:
    """One request. ``act`` carries it out; jobs with an equal ``together`` are passed to one ``act`` as a batch."""

    name: str
    owner: str
    """Session that sent it."""
    size: int
    act: Callable[[Sequence[Any]], Sequence[Result]]
    given: Any = None
    together: Hashable = None
    weight: int = 1
    """Its share of :data:`MOST_TOGETHER`."""
    result: Result | None = None
    error: tuple[str, str] | None = None
    """Message, and whose fault it is: "user" or "server"."""
    ended: float = 0.0
    done: threading.Event = field(default_factory=threading.Event)


class Work:
    """``submit`` and ``fetch`` may be called from any thread; all jobs run in one."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._ready: deque[Job] = deque()
        self._jobs: dict[str, Job] = {}
        self._fetched: OrderedDict[str, None] = OrderedDict()
        self._bytes = 0
        self._next: dict[str, int] = {}
        """Number of each line's next job."""
        self._waiting: dict[str, dict[int, Job]] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="serve", daemon=True)
        self._thread.start()

    def open_line(self, line: str, first: int) -> None:
        """Jobs of ``line`` run in the order of their numbers, from ``first`` on."""
        with self._lock:
            self._next[line] = first
            self._waiting[line] = {}

    def close_line(self, line: str) -> None:
        """Jobs of ``line`` that wait for others will not run."""
        with self._lock:
            self._next.pop(line, None)
            for job in self._waiting.pop(line, {}).values():
                self._end(job, error=("its model was given up", "user"))

    def submit(self, job: Job, line: str | None = None, number: int = 0) -> None:
        """Take a job; one that is sent again is the same. Raises :class:`Busy` and :class:`Unknown`."""
        with self._lock:
            if job.name in self._jobs:
                return
            if self._bytes + job.size > MOST_BYTES or len(self._jobs) - len(self._fetched) >= MOST_JOBS:
                self._forget_old()
                if self._bytes + job.size > MOST_BYTES or len(self._jobs) - len(self._fetched) >= MOST_JOBS:
                    raise Busy("too many requests are waiting: fetch results, or try again later")
            if line is not None:
                if line not in self._next:
                    raise Unknown(f"no model {line}: it was given up, or the server was started anew")
                if number < self._next[line]:
                    raise UserError(f"request {number} of {line} was carried out before: numbers go up by one")
                if number in self._waiting[line]:
                    raise UserError(f"request {number} of {line} was sent twice")
            self._jobs[job.name] = job
            self._bytes += job.size
            if line is None:
                self._ready.append(job)
            else:
                waiting = self._waiting[line]
                waiting[number] = job
                while (following := waiting.pop(self._next[line], None)) is not None:
                    self._ready.append(following)
                    self._next[line] += 1
            self._lock.notify_all()

    def fetch(self, name: str, timeout: float) -> Job | None:
        """The job if it ends within ``timeout`` [s], else None. Raises :class:`Unknown`."""
        with self._lock:
            job = self._jobs.get(name)
        if job is None:
            raise Unknown(f"no request {name}: its result was fetched long ago, or the server was started anew")
        if not job.done.wait(timeout):
            return None
        with self._lock:
            if name in self._jobs:
                self._fetched[name] = None
                self._fetched.move_to_end(name)
            while len(self._fetched) > FETCHED:
                self._drop(self._fetched.popitem(last=False)[0])
        return job

    def cancel(self, name: str) -> None:
        """Do not begin a job; one that runs ends as it would."""
        with self._lock:
            job = self._jobs.get(name)
            if job is not None and job in self._ready:
                self._ready.remove(job)
                self._end(job, error=("it was cancelled", "user"))

    def drop_owner(self, owner: str) -> None:
        """Forget the jobs of a session that has ended, but the one that runs."""
        with self._lock:
            self._ready = deque(job for job in self._ready if job.owner != owner)
            for job in [job for job in self._jobs.values() if job.owner == owner]:
                if not job.done.is_set():
                    self._end(job, error=("its session has ended", "user"))
                self._fetched.pop(job.name, None)
                self._drop(job.name)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        self._thread.join(timeout=60.0)

    def _forget_old(self) -> None:
        before = time.monotonic() - FORGOTTEN
        for job in [job for job in self._jobs.values() if job.done.is_set() and job.ended < before]:
            self._fetched.pop(job.name, None)
            self._drop(job.name)
        while self._fetched:
            self._drop(self._fetched.popitem(last=False)[0])

    def _drop(self, name: str) -> None:
        job = self._jobs.pop(name, None)
        if job is not None:
            self._bytes -= job.size

    def _end(self, job: Job, result: Result | None = None, error: tuple[str, str] | None = None) -> None:
        if job.done.is_set():
            return
        job.result, job.error, job.ended = result, error, time.monotonic()
        job.given, job.act = None, list  # they hold models
        if job.name in self._jobs:
            size = len(result) if isinstance(result, bytes) else 1024
            self._bytes += size - job.size
            job.size = size
        job.done.set()

    def _run(self) -> None:
        while (batch := self._take()) is not None:
            results: Sequence[Result] = []
            error = None
            try:
                results = batch[0].act([job.given for job in batch])
            except (ValueError, OSError) as problem:
                error = (str(problem), "user")
            except Exception as problem:
                traceback.print_exc(file=sys.stderr)
                error = (f"{type(problem).__name__}: {problem}", "server")
            with self._lock:
                for i, job in enumerate(batch):
                    self._end(job, None if error else results[i], error)

    def _take(self) -> list[Job] | None:
        """The next job and those that go together with it; None when closed."""
        with self._lock:
            while not self._ready and not self._closed:
                self._lock.wait()
            if self._closed:
                return None
            first = self._ready.popleft()
            batch, weight = [first], first.weight
            end = time.monotonic() + MOST_LINGER
            while first.together is not None:
                for job in [job for job in self._ready if job.together == first.together]:
                    if weight + job.weight <= MOST_TOGETHER:
                        self._ready.remove(job)
                        batch.append(job)
                        weight += job.weight
                # A client sends the requests of a batch one by one: wait until no more come.
                before = len(self._ready)
                pause = min(LINGER, end - time.monotonic())
                if pause <= 0 or not self._lock.wait(pause) or len(self._ready) == before:
                    break
            return batch
