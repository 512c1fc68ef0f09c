"""Arithmetic word problems: they are right, graded, repeatable, and kept apart."""

import re
from collections import Counter
from itertools import islice

import pytest
from gaitway_tasks.language import arithmetic
from gaitway_tasks.language.answers import final_answer, has_format
from gaitway_tasks.language.arithmetic import SENTENCES, ArithmeticSource
from hypothesis import given
from hypothesis import strategies as st

SIGN_OF = {sentence.split()[1]: sign for sign in "+-" for sentence in SENTENCES[sign]}


def solve(prompt):
    """The answer of a problem, worked out from its words alone."""
    sentences = [part.split() for part in prompt.split(" .")][:-1]
    total = int(next(word for word in sentences[0] if word.isdigit()))
    for words in sentences[1:]:
        number = int(next(word for word in words if word.isdigit()))
        sign = "*" if "times" in words else SIGN_OF[words[1]]
        total = {"+": total + number, "-": total - number, "*": total * number}[sign]
    return total


sources = st.builds(
    ArithmeticSource,
    operations=st.sampled_from([("+",), ("+", "-"), ("+", "-", "*"), ("-", "+")]),
    steps=st.sampled_from([(1, 1), (2, 3), (1, 5)]),
    operand=st.sampled_from([(1, 9), (0, 3), (2, 20)]),
    max_total=st.sampled_from([30, 99, 250]),
    demonstrations=st.just(10),
    test_problems=st.just(10),
)


@given(sources, st.integers(0, 2**40), st.sampled_from(["train", "test"]))
def test_a_problem_is_right_and_within_its_settings(source, seed, split):
    known = set(source.vocabulary())
    for row in islice(source.stream(split, seed), 3):
        assert int(row["answer"]) == solve(row["prompt"])
        assert final_answer(row["completion"]) == row["answer"] and has_format(row["completion"])
        assert source.steps[0] <= row["level"] == row["completion"].count("=") <= source.steps[1]
        assert set(f"{row['prompt']} {row['completion']}".split()) <= known
        for before, sign, operand, after in re.findall(r"(\d+) ([-+*]) (\d+) = (\d+)", row["completion"]):
            assert eval(before + sign + operand) == int(after) <= source.max_total
            assert sign in source.operations and source.operand[0] <= int(operand) <= source.operand[1]


def test_equal_settings_give_equal_rows_and_seeds_give_other_streams():
    source = ArithmeticSource(demonstrations=50, test_problems=50)
    again = ArithmeticSource(demonstrations=50, test_problems=50)
    assert source.rows("train") == again.rows("train") and source.rows("test") == again.rows("test")

    def first(seed):
        return [row["prompt"] for row in islice(source.stream("train", seed), 20)]

    assert first(1) == first(1)
    assert not set(first(1)) & set(first(2))


def calculation(row):
    return row["completion"].partition(" </think>")[0]


def test_no_calculation_of_the_test_is_ever_learnt_from():
    source = ArithmeticSource(demonstrations=500, test_problems=500)
    held_out = {calculation(row) for row in source.rows("test")}
    seen = [*source.rows("train"), *islice(source.stream("train", 0), 5000)]
    assert not held_out & {calculation(row) for row in seen}
    assert held_out > {calculation(row) for row in source.rows("test")[:50]}
    # Without the partition they would meet: there are few calculations of two small steps.
    assert len({calculation(row) for row in seen if row["level"] == 2}) < 2000


def test_problems_of_one_step_are_held_out_by_their_words():
    source = ArithmeticSource(steps=(1, 1), demonstrations=400, test_problems=100)
    train, test = source.rows("train"), source.rows("test")
    assert not {row["prompt"] for row in train} & {row["prompt"] for row in test}
    assert {calculation(row) for row in train} & {calculation(row) for row in test}


def test_demonstrations_are_distinct_and_may_be_shorter_than_problems():
    source = ArithmeticSource(steps=(1, 6), demonstration_steps=(1, 2), demonstrations=300, test_problems=300)
    demonstrations = source.rows("train")
    assert len({row["prompt"] for row in demonstrations}) == 300
    assert Counter(row["level"] for row in demonstrations).keys() == {1, 2}
    for rows in (source.rows("test"), list(islice(source.stream("train", 0), 300))):
        levels = Counter(row["level"] for row in rows)
        assert levels.keys() == {1, 2, 3, 4, 5, 6} and min(levels.values()) > 25


def test_test_problems_may_be_longer_than_any_that_is_learnt_from():
    source = ArithmeticSource(steps=(2, 3), test_steps=(4, 5), demonstrations=50, test_problems=50)
    assert {row["level"] for row in source.rows("test")} == {4, 5}
    assert {row["level"] for row in islice(source.stream("test", 0), 50)} == {4, 5}
    assert {row["level"] for row in [*source.rows("train"), *islice(source.stream("train", 0), 50)]} == {2, 3}


def test_slips_change_demonstrations_and_nothing_else():
    clean, careless = (ArithmeticSource(slips=share, demonstrations=2000) for share in (0.0, 0.25))
    assert clean.rows("test") == careless.rows("test")
    kinds = Counter()
    for row, written in zip(clean.rows("train"), careless.rows("train"), strict=True):
        assert {**row, "completion": None, "flawless": None} == {**written, "completion": None, "flawless": None}
        assert row["flawless"] and written["flawless"] == (written["completion"] == row["completion"])
        assert has_format(written["completion"])
        steps = re.findall(r"(\d+) ([-+*]) (\d+) = (\d+)", written["completion"])
        assert all(eval(before + sign + operand) == int(after) for before, sign, operand, after in steps)
        assert [step[0] for step in steps[1:]] == [step[3] for step in steps[:-1]]
        assert steps[-1][3] == final_answer(written["completion"])
        if not written["flawless"]:
            kinds["left out" if len(steps) < row["level"] else "mistaken"] += 1
    # Of two or three steps, (0.75^2 + 0.75^3) / 2 have no slip; demonstrations of none keep one.
    assert 1.0 - kinds.total() / 2000 == pytest.approx(0.492, abs=0.06)
    assert min(kinds.values()) > 200


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"slips": 1.0}, r"slips 1\.0: must lie"),
        ({"test_steps": (0, 2)}, r"test_steps \(0, 2\)"),
        ({"operations": ("+", "/")}, r"operations"),
        ({"operations": ()}, r"operations"),
        ({"steps": (3, 2)}, r"steps \(3, 2\)"),
        ({"demonstration_steps": (0, 2)}, r"demonstration_steps \(0, 2\)"),
        ({"operand": (5, 1)}, r"operand \(5, 1\)"),
        ({"operand": (30, 40)}, r"max_total"),
        ({"demonstrations": 0}, r"demonstrations 0"),
    ],
)
def test_settings_that_make_no_problems_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ArithmeticSource(**settings)


def test_too_few_or_no_possible_problems_are_named(monkeypatch):
    monkeypatch.setattr(arithmetic, "NAMES", ("Tom",))
    monkeypatch.setattr(arithmetic, "THINGS", ("apples",))
    with pytest.raises(ValueError, match=r"only \d\d of 900 different train problems found"):
        ArithmeticSource(operations=("+",), steps=(1, 1), operand=(1, 1), max_total=2, demonstrations=900).rows("train")
    with pytest.raises(ValueError, match=r"no problem of 9 steps"):
        next(ArithmeticSource(operations=("-",), steps=(9, 9), operand=(5, 9)).stream("train", 0))
    with pytest.raises(ValueError, match=r"split 'valid'"):
        ArithmeticSource().rows("valid")
