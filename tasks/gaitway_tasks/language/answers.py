"""The form of an answer: reasoning between think tags, then the result between answer tags."""

from __future__ import annotations

import re

THINK, END_THINK, ANSWER, END_ANSWER = TAGS = ("<think>", "</think>", "<answer>", "</answer>")

CORRECT = ("correctness", "code")
"""Parts of a reward that say whether an answer is right: 1 if it is."""
RIGHT = 1.0 - 1e-6
"""Least value of such a part for a right answer."""
MAX_ANSWER_CHARS = 200
"""A final answer longer than this is no answer: nothing that it could be compared with is so long."""

FORMAT_PROMPT = (
    "Think about the problem step by step between <think> and </think>, "
    "then give only the final answer between <answer> and </answer>."
)

_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:/\d+)?")


def with_tags(thought: str, answer: str, *, space: str = " ") -> str:
    """A complete answer in the form that :func:`has_format` wants, its pieces separated by ``space``."""
    return space.join((THINK, thought, END_THINK, ANSWER, answer, END_ANSWER))


def has_format(text: str) -> bool:
    """True if each tag is there once, in order, around some text, with nothing before, between or after the pairs."""
    if any(text.count(tag) != 1 for tag in TAGS):
        return False
    before, _, rest = text.partition(THINK)
    thought, end_think, rest = rest.partition(END_THINK)
    between, start_answer, rest = rest.partition(ANSWER)
    answer, end_answer, after = rest.partition(END_ANSWER)
    complete = bool(end_think and start_answer and end_answer)
    return complete and bool(thought.strip() and answer.strip()) and not (before + between + after).strip()


def final_answer(text: str, *, tags_only: bool = False) -> str | None:
    """The answer that a text settles on, or None.

    It stands in the last complete pair of answer tags. Where ``tags_only`` is False and there is no answer tag, it is
    the content of the last ``\\boxed{...}``, what follows the last ``####``, or else the last number.
    """
    if ANSWER in text or tags_only:
        return _short(tagged(text))
    boxed = _last_boxed(text)
    if boxed is not None:
        return _short(boxed)
    if "####" in text:
        return _short(text.rpartition("####")[2])
    return last_number(text)


def tagged(text: str) -> str:
    """Content of the last complete pair of answer tags; empty without one."""
    end = text.rfind(END_ANSWER)
    start = text.rfind(ANSWER, 0, max(end, 0))
    return text[start + len(ANSWER) : end] if 0 <= start < end else ""


def last_number(text: str) -> str | None:
    """The last number of a text, such as "1,234.5" or "3/4"; None without one."""
    found = None
    for found in _NUMBER.finditer(text[-10 * MAX_ANSWER_CHARS :]):  # noqa: B007
        pass
    return found.group() if found else None


def _short(answer: str) -> str | None:
    answer = answer.strip()
    return answer if 0 < len(answer) <= MAX_ANSWER_CHARS else None


def _last_boxed(text: str) -> str | None:
    """Content of the last ``\\boxed{...}`` by counting braces; None without a closed one."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    start += len("\\boxed{")
    depth = 1
    for index in range(start, min(len(text), start + 2 * MAX_ANSWER_CHARS)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[start:index]
    return None
