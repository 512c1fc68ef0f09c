"""Likely cause of a FAIL: a setting of the training that differs from the recipe and brings about such failures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LESS, MORE, NARROWER, OTHER = "less", "more", "narrower", "other"


@dataclass(frozen=True)
class Cause:
    """A setting that brings about failures when it is changed in one way."""

    key: str
    """Its dotted name, as a pattern."""
    when: str
    """``less`` or ``more`` than the recipe (of its size; a term without it has none), ``narrower`` or ``other``."""
    symptoms: frozenset[str]
    """Themes, metrics, scenarios and "factor:NAME" of what fails."""
    says: str
    """What the setting does, as the end of a sentence."""
    weight: float = 1.0
    """Below 1 for a setting that anything may come from: others go before it."""

    def applies(self, key: str, recipe: Any, own: Any) -> bool:
        """True if ``own`` differs from ``recipe`` in this way."""
        return bool(re.fullmatch(self.key, key)) and CHANGED[self.when](recipe, own)


@dataclass(frozen=True)
class Found:
    """A cause with the setting that it was found in."""

    cause: Cause
    key: str
    recipe: Any
    own: Any
    share: float
    """Share of the failed limits that are its symptoms."""

    def sentence(self) -> str:
        own = "removed" if self.own is None else said(self.own)
        return f"{self.key} is {own}, and the recipe has {said(self.recipe)}: {self.cause.says}"


def likely(
    causes: Sequence[Cause],
    failures: Sequence[tuple[Any, Any]],
    themes: Mapping[str, str],
    changes: Mapping[str, tuple[Any, Any]],
) -> Found | None:
    """The cause that has most of the failures for symptoms, by its weight; of equal ones the first; None without one.

    ``failures`` are results and checks, ``changes`` the recipe's value and the training's of each key that differs.
    """
    tags = [
        {themes.get(check.metric.name, ""), check.metric.name, result.name, f"factor:{result.factor}"} - {""}
        for result, check in failures
    ]
    found = [
        Found(cause, key, recipe, own, sum(bool(cause.symptoms & each) for each in tags) / max(len(tags), 1))
        for cause in causes
        for key, (recipe, own) in changes.items()
        if cause.applies(key, recipe, own)
    ]
    return max((each for each in found if each.share), key=lambda each: each.share * each.cause.weight, default=None)


def said(value: Any) -> str:
    """A setting in a sentence."""
    if isinstance(value, list | tuple):
        return f"{said(value[0])} to {said(value[1])}" if _is_range(value) else f"({', '.join(map(said, value))})"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _is_range(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(end, int | float) for end in value)


def _size(value: Any) -> float | None:
    if value is None:
        return 0.0
    return abs(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _less(recipe: Any, own: Any) -> bool:
    a, b = _size(recipe), _size(own)
    return a is not None and b is not None and b < 0.75 * a


def _more(recipe: Any, own: Any) -> bool:
    a, b = _size(recipe), _size(own)
    return a is not None and b is not None and b > 1.33 * a


def _narrower(recipe: Any, own: Any) -> bool:
    if own is None:
        return _is_range(recipe)
    if not (_is_range(recipe) and _is_range(own)):
        return False
    return bool(own[0] > recipe[0] or own[1] < recipe[1])


CHANGED: dict[str, Callable[[Any, Any], bool]] = {
    LESS: _less, MORE: _more, NARROWER: _narrower, OTHER: lambda recipe, own: recipe != own,
}  # fmt: skip
