"""Which checkpoint of a run is used: what may be typed, what is best, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gaitway_files.errors import UserError

from gaitway.errors import RunError
from gaitway.runs.choice import best, note, read_which, settle, several
from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import RunWarning
from gaitway.train_config import resolve


@pytest.mark.parametrize("text", ["2000000", "2_000_000", "2,000,000", "2.0e6", "2e+6", "2M", "2000k", 2_000_000, 2e6])
def test_steps_may_be_written_in_many_ways(text):
    assert read_which(text) == 2_000_000


@pytest.mark.parametrize("text", ["", "all", "newest", "1.5", "1,5M", "-3", "inf", "nan", "1e99", "1e999999999", "2 M"])
def test_what_is_no_number_of_steps_is_refused(text):
    with pytest.raises(UserError, match="2000000 or 2M, best or last"):
        read_which(text)


def row(steps: int, missing: int = 0, closest: float | None = None, suite: bool | None = None, **more: Any) -> Any:
    """Row of an examination with ``missing`` failed checks."""
    found = {"steps": steps, "passed": not missing, "missing": ["drift"] * missing, "checks": [], "left_out": []}
    found |= {} if closest is None else {"closest": closest}
    found |= {} if suite is None else {"suite": {"passed": suite, "failed": [], "seed": 0}}
    return found | more


@pytest.mark.parametrize(
    ("rows", "steps"),
    [
        ([row(1, suite=True), row(2, suite=True), row(3, closest=0.1)], 2),  # the suite before all, the newest of them
        ([row(1, closest=0.9), row(2, closest=0.7), row(3, closest=0.8)], 2),
        ([row(1, closest=0.7), row(2, closest=0.7), row(3, 1, closest=1.01)], 2),  # of two alike the newest
        ([row(1), row(2)], 2),  # of earlier versions, whose rows do not say
        ([row(1, closest=0.9), row(2)], 1),
        ([row(1, closest=0.7, suite=False), row(2, closest=0.8)], 1),
        ([row(1, 2, closest=1.1), row(2, 1, closest=3.0), row(3, 4, closest=1.0)], 2),
        ([row(1, 1, closest=1.2), row(2, 1, closest=1.1), row(3, 1, closest=1.3)], 2),
        ([row(1, 1), row(2, 1)], 2),
        ([row(1, 3), row(2, 1, left_out=["standing", "stops", "straight"])], 1),  # left out since it is hopeless
        ([row(1, 1, left_out=["load"], worst=3.0), row(2, 1, left_out=["load"], worst=9.0)], 1),
        ([row(1, closest=float("nan")), row(2, closest=float("inf")), row(3, closest=0.99)], 3),
        ([row(1), row(1, 2), row(2, 1)], 2),  # the later row of the same steps counts
        ([row(4), row(5, suite=True), {"passed": True}, {"steps": [1]}, row(3, 9)], 3),  # four and five were not kept
    ],
)
def test_the_best_is_the_one_that_passed_by_most(rows, steps):
    assert best(rows, {1, 2, 3}) == steps


def test_without_an_examined_checkpoint_none_is_best():
    assert best([], {1, 2}) is None and best([row(3)], {1, 2}) is None and best([row(3)], {}) is None


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run with seven checkpoints that no one opens."""
    run = RunFolder.create(tmp_path / "run", resolve("cartpole"))
    for number in range(1, 8):
        run.save_checkpoint({"steps": number * 1024}, keep=7)
    run.update(status="finished")
    return run


def test_named_steps_the_newest_and_the_best_are_found(run):
    assert list(run.kept()) == [number * 1024 for number in range(1, 8)]
    (run.path / "checkpoints/step_copy.pt").touch()  # is no number of steps
    assert settle(run, 2048) == settle(run, "2_048") == 2048
    assert settle(run) is settle(run, "last") is None
    run.append_examination(row(3072))
    run.append_examination(row(7168, 1))
    assert settle(run, "best") == 3072
    assert note(run, "best", 3072) == "checkpoint of 3,072 steps, the best by its examinations"
    assert note(run, 3072, 3072) is note(run, None, None) is None


def test_a_run_without_checkpoints_has_only_the_next_one(tmp_path):
    run = RunFolder.create(tmp_path / "run", resolve("cartpole"))
    assert settle(run, 5) is settle(run, "best") is None
    with pytest.raises(RunError, match="no checkpoint yet"):
        several(run)


def test_steps_that_were_not_kept_are_refused_with_the_nearest(run):
    with pytest.raises(RunError, match=r"run kept no checkpoint of 4,000 steps; the nearest: (.*)$") as refused:
        settle(run, 4000)
    assert str(refused.value).endswith("nearest: 2,048, 3,072, 4,096, 5,120, 6,144")


def test_without_examinations_there_is_no_best(run):
    with pytest.raises(RunError) as refused:
        settle(run, "best")
    assert str(refused.value) == (
        f"--checkpoint best: {run.path} was trained without examinations (--until good); use last or one of the steps "
        "3,072, 4,096, 5,120, 6,144, 7,168, ..."
    )
    run.append_examination(row(5000))
    with pytest.raises(RunError, match="kept no checkpoint that was examined; use last or one of the steps 3,072"):
        settle(run, "best")


def test_the_choice_of_a_run_is_its_default_unless_it_trains(run):
    run.update(chosen=2048)
    assert settle(run) == 2048 and settle(run, "last") is None
    assert note(run, None, 2048) == (
        "checkpoint of 2,048 steps, the one this run chose; --checkpoint last for the newest"
    )
    run.update(status="running")
    assert settle(RunFolder.open(run.path)) is None
    run.update(status="finished", chosen=7168)
    assert settle(run) == 7168 and note(run, None, 7168) is None  # the newest all the same
    run.update(chosen=2000)
    with pytest.warns(RunWarning, match="2,000 steps, which is gone: the newest"):
        assert settle(run) is None


def test_all_are_a_dozen_at_most(run, monkeypatch):
    assert several(run) == list(run.kept())
    assert several(run, ["last", 1024, "7168"]) == [1024, 7168]
    for number in range(8, 51):
        run.save_checkpoint({"steps": number * 1024}, keep=50)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1})
    with pytest.raises(RunError, match=r"kept 50 checkpoints.*about 80 minutes.*--checkpoint best --checkpoint 51200"):
        several(run)
    assert several(run, [1024 * number for number in range(1, 21)])[-1] == 20480
