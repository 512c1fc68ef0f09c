"""Whether two final answers are the same: exact, as numbers, or as mathematics by math-verify."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction

_NUMBER = re.compile(r"[-+]?\d{1,60}(\.\d{0,60})?(/\d{1,60})?%?|[-+]?\.\d{1,60}%?")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(\D|$))")


def plain(answer: str) -> str:
    """An answer without what never changes its meaning: outer spaces, dollars, a final full stop, thousands commas."""
    answer = answer.strip().removesuffix(".").replace("\\$", "").replace("$", "").strip()
    return " ".join(_THOUSANDS.sub("", answer).split())


def number(answer: str) -> Fraction | None:
    """The value of a plain number, fraction or percentage; None for anything else."""
    if not _NUMBER.fullmatch(answer):
        return None
    top, _, bottom = answer.removesuffix("%").partition("/")
    try:
        value = Fraction(Decimal(top)) / Fraction(bottom or 1)
    except (InvalidOperation, ZeroDivisionError):
        return None
    return value / 100 if answer.endswith("%") else value


def same(answer: str, gold: str) -> bool | None:
    """Whether two answers are equal as texts or numbers; None where only mathematics can tell."""
    answer, gold = plain(answer), plain(gold)
    if answer.casefold() == gold.casefold():
        return True
    first, second = number(answer), number(gold)
    if first is not None and second is not None:
        return first == second
    return None


def equal(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether the answer of each pair (answer, gold) is the gold one."""
    return [bool(same(answer, gold)) for answer, gold in pairs]
