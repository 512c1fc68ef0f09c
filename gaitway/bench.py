"""Run a matrix of tasks, agents and seeds, several at a time, each in a process of its own."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaitway_files.children import ending_with_us
from gaitway_files.json_files import read_json
from gaitway_files.reading import FileError
from gaitway_files.writing import open_to_append

from .compare.measures import error_name, fallen
from .compare.series import read_evaluations
from .errors import RunError
from .runs.folder import RECORD, family
from .training.interrupt import StopRequest, stop_requests

ATTEMPTS = 3
"""Most starts of a run: one whose process was killed is continued, and killed at its last start it counts as failed."""
POLL_S = 0.2


@dataclass(eq=False)
class Job:
    """One run of the matrix."""

    task: str
    agent: str
    seed: int
    folder: Path
    settings: tuple[str, ...] = ()
    attempts: int = 0

    def command(self) -> list[str]:
        """The arguments of ``gaitway`` that start the run, or continue it."""
        options = ["--agent", self.agent, "--seed", str(self.seed), "--out", str(self.folder)]
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

    def __str__(self) -> str:
        return f"{self.task} {self.agent} seed {self.seed}"


def matrix(
    tasks: Sequence[str], agents: Sequence[str], seeds: Sequence[int], out: Path, settings: Sequence[str]
) -> list[Job]:
    """Every task with every agent and seed; run folders are ``out/<task>-<agent>/seed<k>``."""
    return [
        Job(task, agent, seed, out / family(task, agent) / f"seed{seed}", tuple(settings))
        for seed in seeds
        for task in tasks
        for agent in agents
    ]


def run_matrix(jobs: Sequence[Job], workers: int) -> int:
    """Run all jobs that are not finished, ``workers`` at a time; returns the exit code.

    A process that is killed is started again and continues its run; one that fails is not. A stop request is passed
    on, and every run writes its checkpoint before this returns.
    """
    waiting = deque(job for job in jobs if not job.is_finished())
    if len(waiting) < len(jobs):
        print(f"{len(jobs) - len(waiting)} of {len(jobs)} runs are finished already", flush=True)
    running: dict[Job, subprocess.Popen[bytes]] = {}
    failed: list[Job] = []
    with stop_requests() as stop, _all_ended(running):
        while (waiting or running) and stop.signal is None:
            while waiting and len(running) < workers:
                job = waiting.popleft()
                running[job] = _start(job)
            time.sleep(POLL_S)
            for job, code in list(_ended(running)):
                if code < 0 and job.attempts < ATTEMPTS:
                    print(f"{job}: killed by {signal.Signals(-code).name}; continuing from its checkpoint", flush=True)
                    waiting.appendleft(job)
                elif code:
                    failed.append(job)
                    print(f"{job}: failed, exit code {code}; see {job.log}", flush=True)
                else:
                    done = sum(other.is_finished() for other in jobs)
                    print(f"{job}: {_result(job)}  [{done} of {len(jobs)}]", flush=True)
    return _verdict(jobs, failed, stop)


def _start(job: Job) -> subprocess.Popen[bytes]:
    job.attempts += 1
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    with open_to_append(job.log) as output:
        command = [sys.executable, "-P", "-m", "gaitway", *job.command()]
        return subprocess.Popen(
            ending_with_us(command, signal.SIGTERM), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )


def _ended(running: dict[Job, subprocess.Popen[bytes]]) -> Iterator[tuple[Job, int]]:
    for job, process in list(running.items()):
        code = process.poll()
        if code is not None:
            del running[job]
            yield job, code


@contextmanager
def _all_ended(running: dict[Job, subprocess.Popen[bytes]]) -> Iterator[None]:
    """Stop all processes at the end of the block, also after an error, and wait for them."""
    try:
        yield
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()


def _result(job: Job) -> str:
    """Length of the run and its last evaluation; of a robot falls and tracking errors stand before the return."""
    record = job.record()
    text = f"{record['steps']:,} steps in {record['wall_time_s']:.0f} s"
    try:
        last = read_evaluations(job.folder)[-1]
    except (RunError, LookupError):
        return text
    if last.falls is None:
        return f"{text}, evaluation {last.mean:.2f} over {len(last.returns)} episodes"
    errors = [f"{value:.3f} {unit} {name}" for key, value in last.errors.items() for name, unit in [error_name(key)]]
    told = [f"{fallen([last])} episodes fell", *errors, f"return {last.mean:.2f}"]
    return f"{text}, evaluation: {', '.join(told)}"


def _verdict(jobs: Sequence[Job], failed: Sequence[Job], stop: StopRequest) -> int:
    done = sum(job.is_finished() for job in jobs)
    if done == len(jobs):
        print(f"all {len(jobs)} runs are finished; compare them with: gaitway compare {_root(jobs)} --group agent")
        return 0
    if stop.signal is not None:
        print(f"stopped by {stop.signal.name} with {done} of {len(jobs)} runs finished; the same command continues")
        return stop.exit_code
    print(f"{len(failed)} of {len(jobs)} runs failed: {', '.join(map(str, failed))}", file=sys.stderr)
    return 1


def _root(jobs: Sequence[Job]) -> str:
    return shlex.quote(str(jobs[0].folder.parent.parent))
