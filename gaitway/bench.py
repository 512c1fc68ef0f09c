"""Run a matrix of tasks, agents and seeds, several at a time, each in a process of its own."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from .compare.measures import error_name, fallen
from .compare.series import read_evaluations
from .config.overrides import changes
from .config.tree import to_tree
from .errors import RunError
from .jobs import Crew, Job, Place
from .runs.folder import RunFolder, family, is_run
from .start import RESUMABLE
from .train_config import merge
from .training.interrupt import StopRequest, stop_requests


def matrix(
    tasks: Sequence[str],
    agents: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    settings: Sequence[str],
    options: Sequence[str] = (),
) -> list[Job]:
    """Every task with every agent and seed; run folders are ``out/<task>-<agent>/seed<k>``.

    ``options`` are further ones of ``gaitway train``.
    """
    return [
        Job(task, agent, seed, out / family(task, agent) / f"seed{seed}", tuple(settings), tuple(options))
        for seed in seeds
        for task in tasks
        for agent in agents
    ]


def check_begun(jobs: Iterable[Job]) -> None:
    """Raise :class:`RunError` for a run that was begun with another value of a setting of its job."""
    for job in jobs:
        if not is_run(job.folder):
            continue
        stored = RunFolder.open(job.folder).config()
        for key, (had, asked) in changes(to_tree(stored), to_tree(merge(stored, None, job.settings))).items():
            if key not in RESUMABLE or key == "total_steps":
                raise RunError(
                    f"{job.folder} was begun with {key}={had}, not {asked}: repeat its command to continue it, or "
                    "choose another --out"
                )


def run_matrix(jobs: Sequence[Job], workers: int, place: Place | None = None) -> int:
    """Run all jobs that are not finished, ``workers`` at a time, here unless ``place`` is given; returns the exit code.

    A process that is killed is started again and continues its run; one that fails is not. A stop request is passed
    on, and every run writes its checkpoint before this returns.
    """
    waiting = [job for job in jobs if not job.is_finished()]
    if len(waiting) < len(jobs):
        print(f"{len(jobs) - len(waiting)} of {len(jobs)} runs are finished already", flush=True)

    def describe(job: Job) -> str:
        return f"{result(job)}  [{sum(other.is_finished() for other in jobs)} of {len(jobs)}]"

    with stop_requests() as stop, Crew(workers, place) as crew:
        failed = crew.work(waiting, stop, describe)
    return _verdict(jobs, failed, stop)


def result(job: Job) -> str:
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
