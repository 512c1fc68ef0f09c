"""Names by pattern: regular expressions in a time that no stranger's expression can stretch.

Python's own matcher may try every way to split a name, which ``(.*)*x`` makes astronomically many. This one follows all
of them at once: the places that a part of the expression can reach are the bits of one number.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from re import _constants as code  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, TypeVar

from .errors import UserError
from .reading import VALUE, one_line, printable

T = TypeVar("T")

LONGEST = 5_000
"""Most characters of a pattern."""
STEPS = 100_000
"""Most steps to match a name; ``.*_hip_.*`` takes about twenty."""

_SINGLE = (code.LITERAL, code.NOT_LITERAL, code.ANY, code.IN)
_BEGIN = (code.AT_BEGINNING, code.AT_BEGINNING_STRING)
_ENDS = {(code.AT, where) for where in (*_BEGIN, code.AT_END, code.AT_END_STRING)}
_CATEGORIES = {
    code.CATEGORY_DIGIT: str.isdecimal,
    code.CATEGORY_SPACE: str.isspace,
    code.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
    code.CATEGORY_NOT_DIGIT: lambda char: not char.isdecimal(),
    code.CATEGORY_NOT_SPACE: lambda char: not char.isspace(),
    code.CATEGORY_NOT_WORD: lambda char: not (char.isalnum() or char == "_"),
}


class PatternError(UserError):
    """A pattern that cannot be used."""

    def __init__(self, pattern: object, fault: str):
        super().__init__(f"{printable(repr(pattern), VALUE)} is no pattern of names, such as '.*_foot': {fault}")


def matches(pattern: str, name: str) -> bool:
    """True if the regular expression ``pattern`` matches all of ``name``, as ``re.fullmatch`` has it.

    Raises :class:`PatternError` for an invalid one, and for what names do not need: flags, references to groups,
    possessive parts.
    """
    if not isinstance(pattern, str):
        raise PatternError(pattern, "it is no text")
    return _Match(pattern, name).whole()


def by_pattern(joints: Iterable[str | None], values: Mapping[str, T]) -> dict[str, T]:
    """Value for each joint: that of the first regular expression in ``values`` that matches its whole name."""
    found = {}
    for name in joints:
        if name is None:
            continue
        matching = [value for pattern, value in values.items() if matches(pattern, name)]
        if not matching:
            raise UserError(f"no pattern matches joint {name!r}: {', '.join(values)}")
        found[name] = matching[0]
    return found


@functools.lru_cache(1024)
def _parsed(pattern: str) -> Any:
    """The parts of a pattern, as Python's own parser has them."""
    if len(pattern) > LONGEST:
        raise PatternError(pattern, f"it has {len(pattern)} characters, {LONGEST} at most")
    try:
        parts = parser.parse(pattern)
        unknown = _unknown(parts)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(pattern, one_line(error)) from None
    if parts.state.flags & ~re.UNICODE:
        unknown = "flags"
    if unknown:
        raise PatternError(pattern, f"it has {unknown}, which names do not need and are not known here")
    return parts


def _unknown(parts: Any) -> str:
    """What a pattern has that :class:`_Match` does not know, or nothing."""
    for kind, value in parts:
        within: Any = ()
        if kind is code.BRANCH:
            within = value[1]
        elif kind is code.SUBPATTERN and not (value[1] or value[2]):
            within = (value[3],)
        elif kind in (code.MAX_REPEAT, code.MIN_REPEAT):
            within = (value[2],)
        elif kind in (code.ASSERT, code.ASSERT_NOT):
            within = (value[1],)
            if value[0] < 0 and len(set(value[1].getwidth())) > 1:
                return "a look-behind of no fixed width"
        elif kind not in _SINGLE and (kind, value) not in _ENDS:
            return f"{kind} {value}".lower() if kind is code.AT else str(kind).lower()
        if found := next(filter(None, map(_unknown, within)), ""):
            return found
    return ""


class _Match:
    """A pattern and a name. Sets of places between characters are numbers: bit k is the place before character k."""

    def __init__(self, pattern: str, name: str):
        self.pattern, self.name = pattern, name
        self.steps = 0

    def whole(self) -> bool:
        try:
            return bool(self.ends(_parsed(self.pattern), 1) >> len(self.name))
        except RecursionError:
            raise PatternError(self.pattern, "it has too many parts within each other") from None

    def ends(self, parts: Any, starts: int) -> int:
        """Places where a match of ``parts`` that began at one of ``starts`` can end."""
        for kind, value in parts:
            self.steps += 1
            if self.steps > STEPS:
                raise PatternError(self.pattern, f"it takes more than {STEPS} steps to match {self.name!r}")
            if not starts:
                return 0
            starts = self._part(kind, value, starts)
        return starts

    def _part(self, kind: Any, value: Any, starts: int) -> int:
        if kind in _SINGLE:
            self.steps += len(self.name) // 64
            return sum(2 << k for k, char in enumerate(self.name) if starts >> k & 1 and _is(kind, value, char))
        if kind is code.BRANCH:
            return functools.reduce(int.__or__, (self.ends(parts, starts) for parts in value[1]))
        if kind is code.SUBPATTERN:
            return self.ends(value[3], starts)
        if kind in (code.MAX_REPEAT, code.MIN_REPEAT):
            return self._repeated(value, starts)
        if kind is code.AT:
            return starts & (1 if value in _BEGIN else 1 << len(self.name))
        places = [k for k in range(len(self.name) + 1) if starts >> k & 1]
        return sum(1 << k for k in places if self._is_near(k, *value) is (kind is code.ASSERT))

    def _repeated(self, value: tuple[int, int, Any], starts: int) -> int:
        """After the least to the most times. More times than characters change nothing."""
        least, most, parts = value
        for _ in range(min(least, len(self.name) + 1)):
            starts = self.ends(parts, starts)
        reached = new = starts
        for _ in range(min(most - least, len(self.name) + 1)):
            new = self.ends(parts, new) & ~reached
            if not new:
                break
            reached |= new
        return reached

    def _is_near(self, place: int, direction: int, parts: Any) -> bool:
        """True if ``parts`` stand after a place, or for a negative ``direction`` before it."""
        if direction > 0:
            return self.ends(parts, 1 << place) != 0
        begin = place - parts.getwidth()[0]
        return begin >= 0 and bool(self.ends(parts, 1 << begin) >> place & 1)


def _is(kind: Any, value: Any, char: str) -> bool:
    """True if one character is what a part of a pattern asks for."""
    if kind is code.ANY:
        return char != "\n"
    if kind in (code.LITERAL, code.NOT_LITERAL):
        return (ord(char) == value) is (kind is code.LITERAL)
    listed = any(_is_item(item, char) for item in value)
    return listed is not (value[0][0] is code.NEGATE)


def _is_item(item: tuple[Any, Any], char: str) -> bool:
    kind, value = item
    if kind is code.LITERAL:
        return bool(ord(char) == value)
    if kind is code.RANGE:
        return bool(value[0] <= ord(char) <= value[1])
    return kind is code.CATEGORY and _CATEGORIES[value](char)
