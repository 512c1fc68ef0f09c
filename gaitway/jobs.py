"""Trainings in processes of their own, several at a time, on this machine or where a :class:`Place` starts them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gaitway_files.children import ending_with_us
from gaitway_files.json_files import read_json
from gaitway_files.reading import FileError
from gaitway_files.writing import open_to_append

from .runs.folder import RECORD
from .runs.lock import is_held
from .training.interrupt import STOPS, StopRequest

ATTEMPTS = 3
"""Most starts of a run: one whose process was killed is continued, and killed at its last start it counts as failed."""
POLL_S = 0.2
RELEASED_S = 60.0
"""Longest wait for a process of an earlier command that still writes its checkpoint."""


@dataclass(eq=False)
class Job:
    """One training: a run folder that ``gaitway train`` fills."""

    task: str
    agent: str
    seed: int
    folder: Path
    settings: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    """Further options of ``gaitway train``."""
    name: str = ""
    attempts: int = 0
    seconds: float = 0.0
    """Time that its processes took."""
    held_since: float | None = None
    """Time since when another process was seen to hold the folder."""

    def command(self) -> list[str]:
        """The arguments of ``gaitway`` that start the run, or continue it."""
        options = ["--agent", self.agent, "--seed", str(self.seed), *self.options, "--out", str(self.folder)]
        return ["train", self.task, *options, "--resume", "--quiet", *self.settings]

    @property
    def log(self) -> Path:
        """Output of the run's process. It lies beside the run folder, which must be empty when a run begins."""
        return self.folder.with_name(f"{self.folder.name}.log")

    def record(self) -> dict[str, Any]:
        """The run's record; empty if the run has not begun."""
        try:
            record = read_json(self.folder / RECORD, nan=True)
        except FileError:
            return {}
        return record if isinstance(record, dict) else {}

    def is_finished(self) -> bool:
        return self.record().get("status") == "finished"

    def may_start(self) -> bool:
        """False while the process of an earlier command ends; after :data:`RELEASED_S` its start fails and says why."""
        if not is_held(self.folder):
            return True
        now = time.monotonic()
        self.held_since = self.held_since or now
        return now - self.held_since > RELEASED_S

    def __str__(self) -> str:
        return self.name or f"{self.task} {self.agent} seed {self.seed}"


class Process(Protocol):
    """A process of a training, here or elsewhere, with the methods of :class:`subprocess.Popen`."""

    def poll(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""

    def terminate(self) -> None:
        """Ask the training to write a checkpoint and end."""

    def wait(self) -> int:
        """Exit code, once it has ended."""


class Place(Protocol):
    """Where trainings run."""

    def start(self, job: Job) -> Process:
        """Start the process of ``job``, or continue it."""


class Here:
    """This machine."""

    def start(self, job: Job) -> subprocess.Popen[bytes]:
        """Start the process; it is asked to stop if this one dies."""
        job.folder.parent.mkdir(parents=True, exist_ok=True)
        with open_to_append(job.log) as output:
            command = [sys.executable, "-P", "-m", "gaitway", *job.command()]
            return subprocess.Popen(
                ending_with_us(command, signal.SIGTERM), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )


@dataclass
class Running:
    process: Process
    since: float
    stopped: bool = False


class Crew:
    """Jobs, ``workers`` of them at a time. At the end of its block all processes are stopped, also after an error.

    A process that is killed is started again and continues its run; one that fails is not.
    """

    def __init__(self, workers: int, place: Place | None = None):
        self.workers, self.place = workers, place or Here()
        self.waiting: deque[Job] = deque()
        self.running: dict[Job, Running] = {}

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *error: object) -> None:
        for job in self.running:
            self.stop(job)
        for job, each in self.running.items():
            each.process.wait()
            job.seconds += time.monotonic() - each.since

    def __len__(self) -> int:
        """Number of jobs that run or wait."""
        return len(self.waiting) + len(self.running)

    def stop(self, job: Job) -> None:
        """Ask a running job to write its checkpoint and end; it is not started again."""
        self.running[job].stopped = True
        self.running[job].process.terminate()

    def turn(self) -> list[tuple[Job, int]]:
        """Start what may start, wait a moment; jobs that have ended, with their exit codes, negative for a signal."""
        for job in list(self.waiting):
            if len(self.running) >= self.workers:
                break
            if job.may_start():
                self.waiting.remove(job)
                job.attempts += 1
                self.running[job] = Running(self.place.start(job), time.monotonic())
        time.sleep(POLL_S)
        ended = []
        for job, each in list(self.running.items()):
            code = each.process.poll()
            if code is None:
                continue
            del self.running[job]
            job.seconds += time.monotonic() - each.since
            killed = _signal_of(code)
            if killed and not each.stopped and job.attempts < ATTEMPTS:
                print(f"{job}: ended by {killed.name}; continuing from its checkpoint", flush=True)
                self.waiting.appendleft(job)
            else:
                ended.append((job, code))
        return ended

    def work(self, jobs: Iterable[Job], stop: StopRequest, describe: Callable[[Job], str]) -> list[Job]:
        """Run ``jobs`` until all have ended or a stop is requested; the jobs that failed.

        A line is printed when a job ends: ``describe(job)``, or its exit code and log.
        """
        self.waiting.extend(jobs)
        failed = []
        while len(self) and stop.signal is None:
            for job, code in self.turn():
                if code:
                    failed.append(job)
                said = f"failed, exit code {code}; see {job.log}" if code else describe(job)
                print(f"{job}: {said}", flush=True)
        return failed


def _signal_of(code: int) -> signal.Signals | None:
    """The signal that killed a process, or that made a training write a checkpoint and end."""
    number = -code if code < 0 else code - 128
    return signal.Signals(number) if code < 0 or number in STOPS else None
