"""Answers compared as texts, numbers and mathematics, and what hostile ones cost."""

import os
import threading
import time
from fractions import Fraction

import pytest
from gaitway_tasks.language import math_answers
from gaitway_tasks.language.math_answers import equal, monstrous, number, plain
from hypothesis import example, given
from hypothesis import strategies as st


@given(st.integers(-(10**12), 10**12), st.integers(1, 10**6))
def test_ways_to_write_a_number(top, bottom):
    value = Fraction(top, bottom)
    ways = [f"{top}/{bottom}", f" ${top}/{bottom}$. "]
    if bottom == 1:
        ways += [f"{top:,}", f"{top}.0", f"\\text{{{top}}}", f"the answer is {top} apples.", f"x = {top}"]
    for way in ways:
        assert equal([(way, f"{top}/{bottom}")]) == [True], way
    assert equal([(f"{value + 1}", f"{value}")]) == [False]


@given(st.text(max_size=60))
@example("1e999999999")
@example("1/0")
@example("9" * 60)
def test_any_text_is_a_number_or_none(text):
    assert number(plain(text)) is None or isinstance(number(plain(text)), Fraction)


@given(st.integers(0, 99), st.sampled_from([" ", "", "  "]), st.sampled_from("-+*×·"), st.integers(0, 99))
def test_what_is_still_to_be_worked_out_is_no_number(first, space, sign, second):
    value = {"-": first - second, "+": first + second}.get(sign, first * second)
    assert equal([(f"{first}{space}{sign}{space}{second}", str(value))]) == [False]
    assert equal([(f"{first} {second}", str(first + second))]) == [False]


@pytest.mark.parametrize(
    ("answer", "gold", "same"),
    [
        ("\\frac{1}{2}", "0.5", True),
        ("50\\%", "0.5", True),
        ("50%", "50", True),
        ("2^{10}", "1024", True),
        ("3 \\times 10^{2}", "300", True),
        ("\\sqrt{8}", "2\\sqrt{2}", True),
        ("(x+1)^2", "x^2+2x+1", True),
        ("\\{2, 1\\}", "\\{1,2\\}", True),
        ("Paris", "paris", True),
        ("\\text{B}", "B", True),
        ("Paris", "London", False),
        ("71 or 72", "72", False),
        ("1 71", "72", False),
        ("-5", "5", False),
        ("\\frac{1}{3}", "0.5", False),
        ("x^2", "x^3", False),
        ("", "1", False),
        ("$\\frac{", "1/2", False),
    ],
)
def test_mathematics(answer, gold, same):
    assert equal([(answer, gold)]) == [same]


MONSTERS = [
    "9^{9^{9^{9}}}",
    "((9^9)^9)^9",
    "10^{1000000000}",
    "99999!",
    "9**9**9",
    "(" * 50 + "1" + ")" * 50,
    "\\frac{" * 28 + "1",
    "9" * 190,
]


@pytest.mark.parametrize("text", MONSTERS)
def test_monsters_are_not_even_tried(text):
    assert monstrous(text)
    assert equal([(text, "x+1"), (text, "\\frac{1}{3}")]) == [False, False]


def test_a_text_that_cannot_be_interrupted_is_wrong_and_the_next_one_is_judged(monkeypatch):
    """A binomial of this size keeps a C library busy for hours, where signals are not heard."""
    begin, cpu = time.monotonic(), os.times()
    verdicts = equal([("\\binom{999999999}{499999999}", "2x+1"), ("\\frac{3}{4}", "\\frac{6}{8}")])
    assert verdicts == [False, True]
    spent = os.times().children_user - cpu.children_user
    assert spent < 3 * (math_answers.CPU_LIMIT + 3) and time.monotonic() - begin < math_answers.WALL_LIMIT


def test_threads_may_ask_at_once():
    """The limits of math-verify alone would raise here: signals are for the main thread."""
    found = {}

    def ask(i):
        found[i] = equal([(f"\\frac{{{i}}}{{7}}", f"\\frac{{{2 * i}}}{{14}}"), (f"\\sqrt{{{i}}}+x", "x+100")])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: [True, False] for i in range(1, 5)}


def test_a_verifier_that_does_not_start_is_an_error_and_no_verdict(monkeypatch, tmp_path):
    verifier = math_answers._Verifier()
    monkeypatch.setattr(math_answers, "__file__", str(tmp_path / "missing.py"))
    with pytest.raises(math_answers.VerifierError, match=r"missing\.py.*pip install"):
        verifier.ask("x", "x+0")
