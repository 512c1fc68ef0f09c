"""Levels are drawn by how often their answers are right."""

import math
from collections import Counter
from itertools import count, islice

import pytest
from gaitway_language.curriculum import Curriculum
from gaitway_tasks.language.arithmetic import ArithmeticSource
from gaitway_tasks.language.rows import RowError

SOURCE = ArithmeticSource(steps=(1, 4), demonstrations=64, test_problems=8)
SUCCESS = {"1": 0.98, "2": 0.5, "3": 0.02, "4": 0.0}


def play(curriculum, calls):
    """Rows of some rollouts of 50, whose answers are right as often as ``SUCCESS`` says."""
    drawn = []
    for call in calls:
        rows = curriculum.draw(50, call)
        right, values = Counter(), []
        for number, row in enumerate(rows):
            level = str(row["level"])
            right[level] += 1
            values.append(float(int(right[level] * SUCCESS[level]) > int((right[level] - 1) * SUCCESS[level])))
            assert number < 50
        facts = curriculum.learn(rows, {"format": [0.0] * 50, "correctness": values})
        drawn.append(rows)
    return drawn, facts


def test_levels_of_half_success_are_drawn_most():
    curriculum = Curriculum(SOURCE, 0)
    first = Counter(row["level"] for call in range(40) for row in Curriculum(SOURCE, 0).draw(50, call))
    assert min(first.values()) > 0.2 * sum(first.values()), "uniform before anything is measured"
    drawn, facts = play(curriculum, range(60))
    late = Counter(str(row["level"]) for rows in drawn[-20:] for row in rows)
    assert late["2"] > 0.6 * 1000 and min(late.values()) > 10, "the others are still measured"
    assert facts["rollout/level/2/success"] == pytest.approx(0.5, abs=0.1)
    assert sum(value for name, value in facts.items() if name.endswith("/share")) == pytest.approx(1.0)


def test_rows_of_a_level_come_in_the_order_of_the_source():
    curriculum = Curriculum(SOURCE, 3)
    got = [row for call in range(5) for row in curriculum.draw(20, call) if row["level"] == 2]
    source = (row for row in SOURCE.stream("train", 3) if row["level"] == 2)
    assert got == list(islice(source, len(got)))


def test_a_restored_curriculum_goes_on_where_it_was():
    whole, part, restored = (Curriculum(SOURCE, 0) for _ in range(3))
    everything, _ = play(whole, range(8))
    play(part, range(4))
    restored.load_state_dict(part.state_dict())
    rest, _ = play(restored, range(4, 8))
    assert rest == everything[4:] and restored.state_dict() == whole.state_dict()


def test_answers_that_no_reward_judges_do_not_count():
    curriculum, judged = Curriculum(SOURCE, 0), Curriculum(SOURCE, 0)
    rows = curriculum.draw(40, 0)
    facts = curriculum.learn(rows, {"correctness": [1.0] * 20 + [math.nan] * 20})
    judged.learn(rows[:20], {"correctness": [1.0] * 20})
    assert curriculum.success == judged.success
    drawn = Counter(str(row["level"]) for row in rows)
    assert all(facts[f"rollout/level/{name}/share"] == drawn[name] / 40 for name in SUCCESS)


class Listed:
    def __init__(self, levels):
        self.levels = levels

    def rows(self, split):
        return [{"prompt": str(i), **({} if level is None else {"difficulty": level})} for i, level in self.levels]


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ([1, 2, None], "row 3 of the task has no 'level' or 'difficulty'"),
        ([1, 1], "the rows have 1: give"),
        (range(51), "the rows have 51: give"),
    ],
)
def test_rows_without_levels_are_refused(levels, said):
    with pytest.raises(RowError, match=said):
        Curriculum(Listed(list(zip(count(), levels))), 0)
