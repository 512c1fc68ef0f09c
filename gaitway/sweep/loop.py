"""A sweep from its first trial, or from where it was stopped, to its report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from ..errors import RunError
from ..jobs import Crew, Job, Place
from ..runs.files import make_folder, write_text_atomically
from ..runs.lock import LOCK, RunLock
from ..training.interrupt import StopRequest, stop_requests
from .finalists import Finalist, finalists, read_values
from .journal import STUDY
from .plan import Plan
from .report import cost_of, headline, report
from .search import Search

PAGE = "sweep.html"


def run_sweep(
    plan: Plan,
    folder: Path,
    *,
    trials: int,
    workers: int,
    confirm: int,
    seeds: int,
    command: str,
    place: Place | None = None,
) -> int:
    """Search until ``trials`` were begun and have ended, ``workers`` at a time; then train the best with more seeds.

    ``command`` is what was typed, for the page. Returns the exit code. Raises :class:`RunError` for a folder with
    another sweep or something else.
    """
    _check_folder(folder)
    make_folder(folder)
    lock = RunLock(folder)
    with lock:
        search = Search(plan, folder)
        began = time.monotonic()
        spent = search.wall
        with stop_requests() as stop:

            def account() -> None:
                search.spend(spent + time.monotonic() - began - search.wall, workers)

            if ended := sum(trial.state.is_finished() for trial in search.trials()):
                print(f"continuing {folder}: {ended} of {max(trials, ended)} trials have ended", flush=True)
            try:
                _try(search, trials, workers, place, stop, account)
            finally:
                account()
            found = finalists(search, confirm, seeds) if stop.signal is None else []
            failed = _confirm(search, found, workers, place, stop)
        found = read_values(search, found)
        return _finish(search, found, failed, stop, trials=trials, command=command)


def _check_folder(folder: Path) -> None:
    """Refuse a folder with something else in it; that of a sweep has its journal."""
    if not folder.is_dir() or (folder / STUDY).exists():
        return
    if others := sorted(entry.name for entry in folder.iterdir() if entry.name != LOCK):
        raise RunError(f"{folder} is not empty and has no sweep ({others[0]}): choose another --out")


def _try(
    search: Search, trials: int, workers: int, place: Place | None, stop: StopRequest, account: Callable[[], None]
) -> None:
    """Begin trials and tell their ends until there are ``trials``; those that a stop leaves are left running."""
    try:
        with Crew(workers, place) as crew:
            crew.waiting.extend(search.unfinished())
            while stop.signal is None:
                while len(crew) < workers and len(search.trials()) < trials:
                    crew.waiting.append(search.ask())
                if not len(crew):
                    break
                for job, code in crew.turn():
                    said = search.tell(job, code)
                    account()
                    done = sum(trial.state.is_finished() for trial in search.trials())
                    print(f"{job}: {said}  [{done} of {max(trials, done)}]", flush=True)
                for job in [job for job in crew.running if search.prunes(job)]:
                    crew.stop(job)
    finally:
        for job in list(search.runs):
            search.leave(job)


def _confirm(search: Search, found: list[Finalist], workers: int, place: Place | None, stop: StopRequest) -> list[Job]:
    """Train the finalists with their seeds; the jobs that failed."""
    waiting = [job for each in found for job in each.jobs if not job.is_finished()]
    if waiting:
        print(f"training {len(found)} trials again with other seeds: {len(waiting)} runs", flush=True)
    with Crew(workers, place) as crew:
        return crew.work(waiting, stop, lambda job: "done")


def _finish(
    search: Search,
    found: list[Finalist],
    failed: list[Job],
    stop: StopRequest,
    *,
    trials: int,
    command: str,
) -> int:
    """Write the page and print its headline; the exit code."""
    cost = cost_of(search)
    page = search.folder / PAGE
    write_text_atomically(page, report(search, found, cost, command).html())
    if stop.signal is not None:
        ended = sum(trial.state.is_finished() for trial in search.trials())
        print(f"stopped by {stop.signal.name} with {ended} of {trials} trials ended; the same command continues")
        return stop.exit_code
    for line in headline(search, found):
        print(line)
    print(cost)
    print(f"report: {page}")
    if not search.ranked():
        print(f"no trial was completed; the reasons are in {page}", file=sys.stderr)
        return 1
    return 1 if failed else 0
