"""Walks round a ring: what is asked, and how demonstrations give up."""

from collections import Counter
from itertools import islice

import pytest
from gaitway_files.errors import UserError
from gaitway_tasks.language.score import score
from gaitway_tasks.language.tasks import get_language_task
from gaitway_tasks.language.walks import WalkSource

TASK = get_language_task("walks")


def walked(row):
    """Fields that count, from the prompt alone."""
    _, start, *signs = row["prompt"].split()
    place, found = int(start), []
    for sign in signs[: signs.index("!")]:
        place = (place + int(sign)) % 50
        found.append(str(place))
    return found


@pytest.fixture(scope="module")
def written():
    return TASK.source.rows("train")


def test_demonstrations_are_walks_that_end_early(written):
    for row in written[:1000]:
        fields = walked(row)
        assert row["level"] == len(fields) and row["answer"] == fields[-1]
        thought, said = row["completion"].removeprefix("<think> ").split(" </think> <answer> ")
        start, *steps = (word for word in thought.split() if word != "!")
        assert start == row["prompt"].split()[1]
        assert steps == fields[: len(steps)] and said == f"{steps[-1]} </answer>"
        assert "!" not in thought or len(steps) == len(fields)


def test_demonstrators_go_on_with_the_probability_that_is_set(written):
    by_level = {n: [row for row in written if row["level"] == n] for n in range(1, 7)}
    assert max(map(len, by_level.values())) < 1.1 * min(map(len, by_level.values()))
    right = {n: sum(row["completion"].endswith(f" {row['answer']} </answer>") for row in rows) / len(rows)
             for n, rows in by_level.items()}  # fmt: skip
    assert right[1] == 1.0
    for level in range(2, 5):
        assert right[level] == pytest.approx(0.25 ** (level - 1), abs=0.02)


def test_giving_up_is_never_right_by_luck(written):
    for row in written[:1000]:
        assert Counter(walked(row))[row["answer"]] == 1


def test_only_the_last_field_earns(written):
    rows = [row for row in written if row["level"] > 1][:50]
    assert score(TASK, [""] * 50, [f"<answer> {row['answer']} </answer>" for row in rows], rows)[0] == [1.0] * 50
    assert score(TASK, [""] * 50, [f"<answer> {walked(row)[0]} </answer>" for row in rows], rows)[0] == [0.0] * 50


def test_test_problems_are_held_out_and_may_be_longer():
    source = WalkSource(demonstrations=2000, test_problems=300, test_moves=(7, 12))
    held_out = source.rows("test")
    assert {row["level"] for row in held_out} == set(range(7, 13)) and held_out == source.rows("test")
    seen = [*source.rows("train"), *islice(source.stream("train", 3), 2000)]
    assert {row["level"] for row in seen} == set(range(1, 7))
    usual = {row["prompt"] for row in WalkSource(test_problems=300).rows("test")}
    assert not usual & {row["prompt"] for row in seen}
    assert {word for row in [*seen, *held_out] for word in row["completion"].split()} <= set(source.vocabulary())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"moves": (0, 3)}, r"moves \(0, 3\).*1 <= fewest"),
        ({"test_moves": (7, 16)}, r"test_moves \(7, 16\).*places 16"),
        ({"fields": 24}, "fields 24: needs more than moves 6 times largest 4"),
        ({"fields": 101}, "fields 101.*100 at most"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        WalkSource(**settings)
