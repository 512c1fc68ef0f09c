"""Processes that run tasks: same results with any number, errors that arrive, nobody left behind."""

from __future__ import annotations

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
        print("this is no result")
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


def test_an_unforeseen_error_elsewhere_shows_where_it_was() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)line .* in add.*task -1: give") as caught, Workers(2, adder, 0) as two:
        two.submit([-1])
        list(two.results())
    assert type(caught.value) is RuntimeError  # so that the command takes it for a bug


def test_an_error_of_ours_at_the_start_is_raised_with_the_first_task() -> None:
    with pytest.raises(BundleError, match="no such bundle"), Workers(2, broken, 0) as workers:
        workers.submit([1])
        list(workers.results())


def test_a_process_that_is_killed_is_said() -> None:
    with pytest.raises(WorkerError, match="ended with -9"), Workers(2, adder, 0) as workers:
        workers.submit([99])
        list(workers.results())


def test_nobody_is_left_behind_by_ctrl_c() -> None:
    processes = []
    with pytest.raises(KeyboardInterrupt), Workers(2, adder, 0) as workers:
        workers.submit(range(1, 9))
        processes = [process for _, (_, process) in workers.results()]
        workers.submit(range(1, 9))
        raise KeyboardInterrupt
    for process in {*processes}:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_a_worker_ends_with_the_process_that_started_it() -> None:
    """As after a SIGKILL, its pipe ends."""
    with Workers(2, adder, 0) as workers:
        [process, _] = workers._processes
        assert process.stdin is not None
        process.stdin.close()
        deadline = time.monotonic() + 20
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert process.poll() == 0
