"""Answers in words, LaTeX or Unicode brought to one form."""

from __future__ import annotations

import re
from collections.abc import Callable

from gaitway_tasks.language.answers import last_mathematics

_UPRIGHT = re.compile(r"\\(?:text(?:bf|it|rm|sf|normal)?|math(?:rm|bf|it|sf)|boldsymbol|mbox)\s*\{([^{}]*)\}")
_EMPHASIS = re.compile(r"(\*\*\*|\*\*|\*|___|__|_|`)(?=\S)(.*)(?<=\S)\1")
_DELIMITERS = re.compile(r"\\\$|\$|\\[()\[\]]")
_LEAD = re.compile(r"(?:so |thus |hence )?(?:the )?(?:final |correct )?answer(?: is)?\s*[:=]?\s+", re.IGNORECASE)
_CHOICE = re.compile(r"(?:option |choice )?[(\[]?([a-z])[)\].:]?", re.IGNORECASE)
_CHOICE_AND_TEXT = re.compile(r"\(?([A-J])[).:]\s+(?!.*(?:\bor\b|\b[A-J][).:])).*")
_RAISED = str.maketrans("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹", "-+0123456789")
_SYMBOLS = {"∞": "infty", "≤": "le", "≥": "ge", "≠": "ne", "×": "times", "·": "cdot", "÷": "div", "∪": "cup",
            "∩": "cap", "∈": "in", "±": "pm", "π": "pi", "∅": "emptyset"}  # fmt: skip
_LATEX: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"[−–]"), "-"),
    (re.compile(r"(\d)[eE]([-+]?\d{1,3})(?![\w.])"), r"\1 \\times 10^{\2}"),
    (
        re.compile(r"(?<![\d,.])(\d{1,3})((?:(?:\\[,; ]|[ ~\u00a0\u2009\u202f])\d{3})+)(?!\d)"),
        lambda found: re.sub(r"\D", "", found.group()),
    ),
    (re.compile(r"[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+"), lambda found: f"^{{{found.group().translate(_RAISED)}}}"),
    (re.compile(r"(?:\\sqrt|√|\bsqrt)\s*\(([^()]*)\)"), r"\\sqrt{\1}"),
    (re.compile(r"√\s*(\d+|[A-Za-z])"), r"\\sqrt{\1}"),
    (re.compile(r"½"), r"\\frac{1}{2}"),
    (re.compile(r"°"), r"^\\circ "),
    (re.compile(r"\\langle"), "("),
    (re.compile(r"\\rangle"), ")"),
    *((re.compile(sign), rf" \\{name} ") for sign, name in _SYMBOLS.items()),
]


def plain(answer: str) -> str:
    """An answer without what never changes its meaning: spaces, math delimiters, emphasis, a final stop."""
    answer = " ".join(_DELIMITERS.sub(" ", answer).split()).removesuffix(".").rstrip()
    while emphasised := _EMPHASIS.fullmatch(answer):
        answer = emphasised[2].strip().removesuffix(".")
    return _LEAD.sub("", answer, count=1) if _LEAD.match(answer) else answer


def rewritten(answer: str) -> str:
    """An answer in LaTeX that math-verify can read: the mathematics of a sentence, no Unicode, numbers of one form."""
    answer = plain(last_mathematics(answer) or answer)
    for pattern, latex in _LATEX:
        answer = pattern.sub(latex, answer)
    return " ".join(answer.split())


def upright(text: str) -> str:
    """A text without LaTeX's commands for letters of other kinds."""
    return _UPRIGHT.sub(r"\1", text)


def as_text(answer: str) -> str:
    """An answer as words are compared: without case, quotes, kinds of letters, or brackets around a choice."""
    text = " ".join(upright(answer).split()).strip("\"'").casefold()
    choice = _CHOICE.fullmatch(text)
    return choice[1] if choice else text


def chosen(answer: str) -> str | None:
    """The letter of a choice that is written with its text, as in "(B) Paris"."""
    found = _CHOICE_AND_TEXT.fullmatch(upright(answer))
    return found[1] if found else None
