"""Sums of digits: what is asked, and how demonstrations answer."""

from itertools import accumulate, islice

import pytest
from gaitway_tasks.language.digit_sums import DigitSumSource
from gaitway_tasks.language.score import score
from gaitway_tasks.language.tasks import get_language_task

TASK = get_language_task("digit-sums")


@pytest.fixture(scope="module")
def written():
    return TASK.source.rows("train")


def test_every_demonstration_is_right_and_one_in_twenty_writes_running_sums(written):
    thoughtful = [row for row in written if "<think>" in row["completion"]]
    assert 0.045 < len(thoughtful) / len(written) < 0.055
    for row in written[:500] + thoughtful[:100]:
        digits = [int(digit) for digit in row["prompt"].split()]
        assert len(digits) == 16 and set(digits) <= set(range(5))
        assert row["answer"] == str(sum(digits) % 10)
        assert row["completion"].endswith(f"<answer> {row['answer']} </answer>")
    for row in thoughtful[:100]:
        sums = [str(total % 10) for total in accumulate(map(int, row["prompt"].split()))]
        assert row["completion"].split()[1:17] == sums


def test_a_glance_gains_nothing(written):
    """Answers are as good as uniform, whatever the first or last digits are: chance is a tenth."""
    for known in (lambda row: "", lambda row: row["prompt"][:1], lambda row: row["prompt"][-3:]):
        found: dict[str, list[str]] = {}
        for row in written:
            found.setdefault(known(row), []).append(row["answer"])
        best = sum(max(map(answers.count, map(str, range(10)))) for answers in found.values())
        assert best / len(written) < 0.13


def test_only_right_answers_earn(written):
    rows = written[:50]
    said = [row["completion"] for row in rows]
    assert score(TASK, [""] * 50, said, rows)[0] == [1.0] * 50
    wrong = [f"<answer> {(int(row['answer']) + 1) % 10} </answer>" for row in rows]
    assert score(TASK, [""] * 50, wrong, rows)[0] == [0.0] * 50


def test_test_problems_are_held_out_and_the_same_again():
    source = DigitSumSource(demonstrations=2000, test_problems=300)
    held_out = {row["prompt"] for row in source.rows("test")}
    assert len(held_out) == 300 and source.rows("test") == source.rows("test")
    seen = [*source.rows("train"), *islice(source.stream("train", 3), 2000)]
    assert not held_out & {row["prompt"] for row in seen}
    assert {word for row in seen for word in row["completion"].split()} <= set(source.vocabulary())
