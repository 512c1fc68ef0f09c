"""The form of an answer: reasoning between think tags, then the result between answer tags."""

from __future__ import annotations

import re

from gaitway_tasks.language.written_numbers import numbers, plain_number

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

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])[ \t]*")
_BARE = re.compile(r"([-+]?[\d.,/]*\d|[-+]?\\[A-Za-z]+(?:\{[^{}]*\}){1,2}|[A-Za-z])(?=[\s$.,;:!?)]|\\[)\]]|$)")
_LATEX_BETWEEN = re.compile(r"\\text\s*\{([^{}]*)\}|\\q?quad\b|\\[()\[\],; ]|[$&}]")
_NAME_BEFORE = re.compile(r"[A-Za-z]\w{0,3}\s*=\s*$")
_MAX_BOXES, _MAX_BETWEEN = 10, 70
_SPAN = re.compile(r"\$\$(.+?)\$\$|\\\[(.+?)\\\]|\\\((.+?)\\\)|\$((?:\\.|[^$\\\n])+)\$(?!\d)", re.DOTALL)
_JOINED = re.compile(r"\s*(?:,?\s*(?:and|or)\b|[,;])?\s*", re.IGNORECASE)
_FINAL = re.compile(r"\bfinal answer(?: is)?\s*:?[ \t*]", re.IGNORECASE)
_HEADING = re.compile(r"(?:the )?(?:final )?(?:answer|result|solution|conclusion)\W*", re.IGNORECASE)
_LETTER = re.compile(r"\banswer(?: is)?\s*:?\s*\**\(?([A-J])(?:\)|\*\*|[.,;](?=\s|$)|$)", re.IGNORECASE | re.MULTILINE)


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

    It stands in the last complete pair of answer tags, or, where ``tags_only`` is False and there is no answer tag, in
    the text after its thoughts. There it is the content of the last ``\\boxed{...}`` or of several that are listed,
    the line after the last ``####``, or else, in tags, all there is; without them the choice that "the answer is (B)"
    names, or the last number, with the mathematics between dollars that it is a part of.
    """
    if ANSWER in text or tags_only:
        inside = tagged(text)
        return _short(_marked(inside) or inside)
    said = text.rpartition(END_THINK)[2]
    return _short(_marked(said) or _last_result(said) or _marked(text) or "")


def boxed(text: str) -> str | None:
    r"""Content of the last ``\\boxed{...}`` or ``\\fbox``, and of those that it is listed with; None if there is none,
    or none that can be read.
    """
    found: list[str] = []
    end = begin = len(text)
    while len(found) < _MAX_BOXES and (start := max(text.rfind("\\boxed", 0, end), text.rfind("\\fbox", 0, end))) >= 0:
        content, after = _box(text, start)
        if content is None or (found and not _lists(text[after:begin])):
            break
        if content not in found:
            found.insert(0, content)
        end = begin = start
    return ", ".join(found) or None


def _lists(between: str) -> bool:
    """True for a text between two boxes that makes a list of them: a comma, or words that end with "and" or "or"."""
    if len(between) > _MAX_BETWEEN or re.search(r"[.!?\n]", between):
        return False
    words = _NAME_BEFORE.sub("", _LATEX_BETWEEN.sub(r" \1 ", between).rstrip()).strip()
    return words in ("", ",", ";") or bool(re.search(r"(?:^|[\s,;])(?:and|or)$", words))


def has_box(text: str) -> bool:
    """True if a result is boxed in a text, whether it can be read or not."""
    return bool(_BOX.search(text))


def _box(text: str, start: int) -> tuple[str | None, int]:
    """Content of the box that begins there, and its end; None without an end or a content."""
    command = _BOX.match(text, start)
    if command is None:
        return None, start
    begin = command.end()
    if not text.startswith("{", begin):
        bare = _BARE.match(text, begin, begin + MAX_ANSWER_CHARS)
        return (bare[1], bare.end()) if bare else (None, start)
    depth = 0
    for index in range(begin, min(len(text), begin + 2 * MAX_ANSWER_CHARS)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[begin + 1 : index].strip() or None, index + 1
    return None, start


def _marked(text: str) -> str | None:
    """What "the final answer is", what is boxed, or what the line after the last ``####`` says, or after a heading."""
    last = None
    for last in _FINAL.finditer(text):  # noqa: B007
        pass
    if last is not None and not _BOX.search(text, last.end()):
        result = _last_result(text[last.end() :].partition("\n")[0])
        if result:
            return result
    found = boxed(text)
    if found is not None or "####" not in text:
        return found
    lines = [line.strip() for line in text.rpartition("####")[2].splitlines() if line.strip()]
    if len(lines) > 1 and _HEADING.fullmatch(lines[0]):
        return lines[1]
    return lines[0] if lines else None


def _last_result(text: str) -> str | None:
    tail = text[-10 * MAX_ANSWER_CHARS :]
    letters = _LETTER.findall(tail)
    if letters:
        return str(letters[-1])
    mathematics, end = _last_mathematics(tail)
    found = last_number(tail)
    if mathematics and not (found and (last_number(tail[end:]) or not re.search(r"\d", mathematics))):
        return mathematics
    return found


def last_mathematics(text: str) -> str | None:
    """The last mathematics between dollars or LaTeX's brackets, with those it is listed with; None without any."""
    return _last_mathematics(text)[0]


def _last_mathematics(text: str) -> tuple[str | None, int]:
    """The same, and its end."""
    spans: list[tuple[int, int, str]] = []
    position = 0
    while found := _SPAN.search(text, position):
        content = next(group for group in found.groups() if group)
        if found[4] and content[0].isspace() != content[-1].isspace() and not re.search(r"[\\^_]", content):
            # two sums of dollars
            position = found.start() + 1
            continue
        spans.append((found.start(), position := found.end(), content.strip()))
    listed: list[str] = []
    begin = 0
    for start, end, content in reversed(spans):
        if listed and not _JOINED.fullmatch(text, end, begin):
            break
        listed.insert(0, content)
        begin = start
    return ", ".join(listed) or None, spans[-1][1] if spans else 0


def tagged(text: str) -> str:
    """Content of the last complete pair of answer tags; empty without one."""
    end = text.rfind(END_ANSWER)
    start = text.rfind(ANSWER, 0, max(end, 0))
    return text[start + len(ANSWER) : end] if 0 <= start < end else ""


def last_number(text: str) -> str | None:
    """The last number of a text, such as "1,234.5" or "3/4"; None without one."""
    found = numbers(plain_number(text[-10 * MAX_ANSWER_CHARS :]))
    return found[-1] if found else None


def _short(answer: str) -> str | None:
    answer = answer.strip()
    return answer if 0 < len(answer) <= MAX_ANSWER_CHARS else None
