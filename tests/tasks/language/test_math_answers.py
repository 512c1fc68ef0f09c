"""Answers compared as texts, numbers and mathematics, and what hostile ones cost."""

import json
import os
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest
from gaitway_tasks.language import math_answers
from gaitway_tasks.language.math_answers import equal, monstrous, number, plain
from gaitway_tasks.language.mathematics import rewritten
from gaitway_tasks.language.written_numbers import in_words, plain_number
from hypothesis import example, given, settings
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


PUBLIC = Path(__file__).parent / "math_verify_pairs.jsonl"
"""Facts from the tests of math-verify (https://github.com/huggingface/Math-Verify): what is equal to what."""

OTHERWISE = {
    ("$10$", "Answer \\( (9+1) \\)"): "a sum that is still to be worked out is no number",
    ("$1 - \\frac{1}{\\mathrm{e}}$", "$1 + \\frac{1}{\\mathrm{e}}$"): "the values differ",
    ("\\boxed{1} no no no no no \\boxed{2}", "$\\boxed{1,2}$"): "about where an answer stands, not what it means",
}
"""Pairs that are judged otherwise, and why."""


def public_pairs():
    rows = [json.loads(line) for line in PUBLIC.read_text().splitlines()]
    return {(row["gold"], row["answer"]): row["same"] ^ ((row["gold"], row["answer"]) in OTHERWISE) for row in rows}


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 12])
def test_verdicts_of_math_verify_are_not_undone(every):
    pairs = public_pairs()
    assert len(pairs) > 150 and pairs.keys() > OTHERWISE.keys()
    pairs = {pair: same for place, (pair, same) in enumerate(pairs.items()) if place % every == 0}
    verdicts = equal([(answer, gold) for gold, answer in pairs])
    assert {pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict != pairs[pair]} == set()


@given(st.integers(2, 999), st.integers(100, 999), st.sampled_from(["({},{})", "[{},{}]", "\\{{{},{}\\}}", "[{},{})"]))
@settings(max_examples=10)
def test_a_comma_between_brackets_parts_and_does_not_fuse(first, second, brackets):
    first = first % second
    fused, parted = brackets.format(first, second), brackets.replace(",", ", ").format(first, second)
    assert equal([(fused, parted), (fused, f"{first}{second}")]) == [True, False]
    assert equal([(f"{first + 1},{second}", f"{first + 1}{second}")]) == [True]


@given(st.integers(1, 999), st.integers(0, 999), st.sampled_from([",", " ", "'", "\u202f", "\\,", "{,}", ",\\!", "~"]))
def test_thousands(first, second, separator):
    assert equal([(f"{first}{separator}{second:03}", f"{first}{second:03}")]) == [True]


@given(
    st.integers(1, 99), st.integers(1, 9), st.integers(10, 99), st.sampled_from(["{} {}/{}", "{}\\frac{{{}}}{{{}}}"])
)
@settings(max_examples=10)
def test_mixed_numbers(whole, top, under, form):
    value = whole + Fraction(top, under)
    written = form.format(whole, top, under)
    assert equal([(written, str(value)), (f"-{written}", str(-value)), (written, str(value + 1))]) == [
        True,
        True,
        False,
    ]


@given(
    st.integers(1, 99), st.integers(-9, 9), st.sampled_from(["{}e{}", "{} × 10^{{{}}}", "{}\\cdot 10^{}", "{}*10^({})"])
)
def test_powers_of_ten(digits, power, form):
    value = Fraction(digits, 10) * Fraction(10) ** power
    written = form.format(digits / 10, power)
    assert equal([(written, str(value)), (written, str(10 * value))]) == [True, False]


@given(st.integers(0, 999), st.integers(1, 99).filter(lambda n: n % 10))
@settings(max_examples=10)
def test_a_comma_may_begin_decimals_or_the_next_number(whole, part):
    value = Fraction(f"{whole}.{part}")
    assert equal([(f"{whole},{part}", str(value)), (str(value), f"{whole},{part}")]) == [True, True]
    assert equal([(f"{whole},{part}", f"{whole}, {part}"), (f"{whole}, {part}", str(value))]) == [True, False]


UNITS = [
    "cm^2",
    "cm²",
    "km/h",
    "m/s^2",
    " apples",
    " square metres",
    "€",
    "°",
    "^\\circ",
    " USD",
    "个",
    "\\text{ kg}",
    " (pens)",
]
WORKINGS = ["x", " x", "\\pi", "π", "!", "^2", " squared", "\\sqrt{3}", " + 1", " or 6", " alpha", "_3"]


@pytest.mark.parametrize(
    "around", ["{}", "**{}**", "`{}`", "\\textbf{{{}}}", "¥{}", "x = {}", "The answer is {}.", "\\({}\\)"]
)
def test_what_may_stand_around_a_number(around):
    assert equal([(around.format(5), "5"), (around.format(5), "6")]) == [True, False]


def test_units_leave_a_number_as_it_is_and_workings_do_not():
    assert equal([(f"5{unit}", "5") for unit in UNITS]) == [True] * len(UNITS)
    assert equal([("5", f"5{unit}") for unit in UNITS]) == [True] * len(UNITS)
    assert equal([(f"5{more}", "5") for more in WORKINGS if more != "_3"]) == [False] * (len(WORKINGS) - 1)
    assert equal([(f"{before} 5", "5") for before in ("log", "minus", "square root of", "x", "-", "pi")]) == [False] * 6


def test_units_and_bases_that_differ():
    assert equal([("12 cm", "12 m"), ("12 cm", "12 cm"), ("204_5", "204_7"), ("204_5", "204_5")]) == [
        False,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "written", ["B", "(B)", "B.", "B)", "b", "\\text{(B)}", "**B**", "Option B", "(B) Paris", "B. 5 pens"]
)
def test_the_letter_of_a_choice(written):
    assert equal([(written, "B"), (written, "C")]) == [True, False]
    assert equal([("(B) or (C)", "B"), ("(B) or (C)", "C")]) == [False, False]


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("\\frac{1}{2^{98}}", "\\frac{1}{2^{99}}"),
        ("(1, 2^{-98})", "(1, 2^{-99})"),
        ("4\\sqrt(2)", "4"),
        ("4 or more", "4"),
        ("4\\\\7", "4"),
        ("5 \\quad 7", "12"),
        ("4 @ 5", "5"),
    ],
)
def test_false_positives_of_math_verify(answer, gold):
    assert equal([(answer, gold), (gold, gold)]) == [False, True]


@pytest.mark.parametrize(
    "piece", ["and", "a ", "1", "1,000", "x = ", "\\text{", "1 1/2 ", "**", "½", "$", "(B) ", "e^2"]
)
def test_an_answer_of_any_making_is_read_at_once(piece):
    for text in (piece * (200 // len(piece)), f"5 {piece * (190 // len(piece))}!", f"!{piece * (190 // len(piece))} 5"):
        begin = time.process_time()
        in_words(plain_number(text)), rewritten(text), plain(text)
        assert time.process_time() - begin < 0.1


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
