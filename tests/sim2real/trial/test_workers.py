"""Processes that run tasks: same results with any number, errors that arrive, nobody left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable

import pytest
from gaitway_onboard.bundle.contract import BundleError
from gaitway_sim2real.trial.workers import WorkerError, Workers


def adder(first: int) -> Callable[[int], tuple[int, int]]:
    def add(task: int) -> tuple[int, int]:
        if task < 0:
            raise ValueError(f"task {task}: give a positive one")
        if task == 99:
            os.kill(os.getpid(), signal.SIGKILL)
        return first + task, os.getpid()

    return add


def broken(_: int) -> None:
    raise BundleError("no such bundle")


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(os.path.dirname(__file__))


@pytest.mark.parametrize("count", [1, 2])
def test_tasks_are_done_here_or_elsewhere(count: int) -> None:
    with Workers(count, adder, 10) as workers:
        workers.submit([1, 2, 3])
        found = {}
        for task, (total, process) in workers.results():
            found[task] = total
            assert (process == os.getpid()) == (count == 1)
            if task == 3:
                workers.submit([4])
    assert found == {1: 11, 2: 12, 3: 13, 4: 14}


@pytest.mark.parametrize(
    ("count", "make", "task", "error", "says"),
    [
        (1, adder, -1, ValueError, "task -1: give a positive one"),
        (2, adder, -1, ValueError, "task -1: give a positive one"),
        (2, broken, 1, BundleError, "no such bundle"),  # at the start
        (2, adder, 99, WorkerError, "was ended"),  # killed
    ],
)
def test_an_error_here_or_elsewhere_is_raised_here(
    count: int, make: Callable[[int], object], task: int, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says) as caught, Workers(count, make, 0) as workers:
        workers.submit([task])
        list(workers.results())
    if (count, error) == (2, ValueError):  # with the traceback of there
        assert "in add" in str(caught.value.__cause__)


def test_nobody_is_left_behind_by_ctrl_c() -> None:
    processes = []
    with pytest.raises(KeyboardInterrupt), Workers(2, adder, 0) as workers:
        workers.submit(range(1, 9))
        processes = [process for _, (_, process) in workers.results()]
        workers.submit(range(1, 9))
        raise KeyboardInterrupt
    deadline = time.monotonic() + 20
    while (left := {child.pid for child in multiprocessing.active_children()} & {*processes}) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.02)
    assert processes and not left
