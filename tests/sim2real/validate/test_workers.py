"""Processes that run tasks: same results with any number, errors that arrive, nobody left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable

import pytest
from gaitway_onboard.bundle.contract import BundleError
from gaitway_sim2real.validate.workers import WorkerError, Workers


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


def test_an_error_is_raised_here() -> None:
    with pytest.raises(ValueError, match="task -1: give a positive one"), Workers(1, adder, 0) as workers:
        workers.submit([-1])
        list(workers.results())


def test_an_error_elsewhere_is_raised_here_with_the_traceback_of_there() -> None:
    with pytest.raises(ValueError, match="task -1: give a positive one") as caught, Workers(2, adder, 0) as workers:
        workers.submit([-1])
        list(workers.results())
    assert "in add" in str(caught.value.__cause__)


def test_an_error_of_ours_at_the_start_is_raised_with_the_first_task() -> None:
    with pytest.raises(BundleError, match="no such bundle"), Workers(2, broken, 0) as workers:
        workers.submit([1])
        list(workers.results())


def test_a_process_that_is_killed_is_said() -> None:
    with pytest.raises(WorkerError, match="was ended"), Workers(2, adder, 0) as workers:
        workers.submit([99])
        list(workers.results())


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
