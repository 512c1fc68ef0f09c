"""reasoning-gym as a source of rows, with the real package where it is installed."""

import sys
from itertools import islice

import pytest
from gaitway_tasks.language.reasoning_gym import ReasoningGymSource, reasoning_score
from gaitway_tasks.language.rows import RowError
from gaitway_tasks.language.score import score
from gaitway_tasks.language.tasks import check_task, get_language_task


def test_what_is_missing_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(ValueError, match=r"leg_counting needs reasoning-gym.*pip install reasoning-gym"):
        get_language_task("reasoning-gym:leg_counting")


@pytest.fixture
def reasoning_gym():
    return pytest.importorskip("reasoning_gym")


def test_rows_are_its_problems_and_its_score_is_the_reward(reasoning_gym):
    task = get_language_task("reasoning-gym:chain_sum")
    assert check_task(task) == {"train": 500, "test": 200, "skipped": 0}
    rows = task.source.rows("test")[:3]
    theirs = reasoning_gym.create_dataset("chain_sum", seed=0, size=3)
    assert [row["prompt"] for row in rows] == [entry["question"] for entry in theirs]
    right = [f"<think> so </think> <answer> {row['answer']} </answer>" for row in rows]
    wrong = [f"<answer> {row['answer']}1 </answer>" for row in rows]
    assert score(task, [""] * 3, right, rows)[0] == [1.2] * 3
    partly = [theirs.score_answer(f"{row['answer']}1", entry) for row, entry in zip(rows, theirs, strict=True)]
    assert score(task, [""] * 3, wrong, rows)[1]["correctness"] == partly
    assert score(task, [""] * 3, ["no tags"] * 3, rows)[0] == [0.0] * 3


def test_nothing_tested_is_learnt(reasoning_gym):
    """Two digits of one term: fewer questions than seeds, so that seeds alone would not keep them apart."""
    few = ReasoningGymSource(
        dataset="chain_sum", params={"min_terms": 2, "max_terms": 2, "max_digits": 1}, test=30, train=100
    )
    tested = {row["prompt"] for row in few.rows("test")}
    again = reasoning_gym.create_dataset("chain_sum", seed=10**6, size=400, **few.params)
    assert tested & {entry["question"] for entry in again}  # other seeds ask it too
    assert tested.isdisjoint(row["prompt"] for row in [*few.rows("train"), *islice(few.stream("train", 1), 100)])
    assert list(islice(few.stream("train", 1), 9)) == list(islice(few.stream("train", 1), 9))
    assert list(islice(few.stream("train", 1), 9)) != list(islice(few.stream("train", 2), 9))


def test_a_data_set_that_ends_says_so(reasoning_gym):
    params = {"min_terms": 2, "max_terms": 2, "max_digits": 1, "min_digits": 1}
    with pytest.raises(RowError, match=r"chain_sum: the 3000 test rows are all .* task\.source\.test smaller"):
        next(ReasoningGymSource(dataset="chain_sum", params=params, test=3000).stream("train", 0))


def test_names_and_settings_are_checked(reasoning_gym):
    with pytest.raises(ValueError, match=r"chain_sun.*did you mean 'chain_sum'"):
        get_language_task("reasoning-gym:chain_sun")
    with pytest.raises(ValueError, match=r"params=.*'terms'"):
        ReasoningGymSource(dataset="chain_sum", params={"terms": 3}).rows("test")
    with pytest.raises(ValueError, match="min_terms must be positive"):
        ReasoningGymSource(dataset="chain_sum", params={"min_terms": 0}).rows("test")


@pytest.mark.parametrize("dataset", ["basic_arithmetic", "countdown", "knights_knaves", "word_sorting"])
def test_the_oracle_of_other_kinds_of_problems_is_right(reasoning_gym, dataset):
    rows = ReasoningGymSource(dataset=dataset, test=2).rows("test")
    told = [f"<answer>{row['answer']}</answer>" for row in rows]
    columns = {name: [row[name] for row in rows] for name in ("entry", "problems")}
    assert reasoning_score(["", ""], told, **columns) == [1.0, 1.0]
