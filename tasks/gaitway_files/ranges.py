"""Ranges of settings that come from files and command lines, declared with their types: ``epochs: PositiveInt = 5``."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from .errors import UserError


@dataclass(frozen=True)
class Range:
    """The values that a setting may have, as a test and in words."""

    allows: Callable[[Any], bool]
    rule: str


def one_of(*choices: str) -> Range:
    """The range of a setting that has a few values."""
    named = " or ".join(map(repr, choices)) if len(choices) == 2 else f"one of {', '.join(map(repr, choices))}"
    return Range(lambda value: value in choices, f"use {named}")


# NaN is in no range.
PositiveInt = Annotated[int, Range(lambda value: value >= 1, "must be at least 1")]
NonNegativeInt = Annotated[int, Range(lambda value: value >= 0, "must not be negative")]
PositiveFloat = Annotated[float, Range(lambda value: value > 0.0, "must be positive")]
NonNegativeFloat = Annotated[float, Range(lambda value: value >= 0.0, "must not be negative")]
Share = Annotated[float, Range(lambda value: 0.0 <= value <= 1.0, "must lie in [0, 1]")]
PositiveShare = Annotated[float, Range(lambda value: 0.0 < value <= 1.0, "must lie in (0, 1]")]
ShareBelowOne = Annotated[float, Range(lambda value: 0.0 <= value < 1.0, "must lie in [0, 1)")]
LayerSizes = Annotated[tuple[int, ...], Range(lambda sizes: min(sizes, default=1) >= 1, "sizes must be at least 1")]
Betas = Annotated[tuple[float, float], Range(lambda betas: all(0.0 <= b < 1.0 for b in betas), "must lie in [0, 1)")]
PositivePair = Annotated[tuple[float, float], Range(lambda pair: all(v > 0.0 for v in pair), "must be positive")]


class Checked:
    """Base of dataclasses whose fields have ranges. ``ValueError`` names the setting, its value and what is allowed."""

    def __post_init__(self) -> None:
        for name, allowed, optional in _ranges(type(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if not (optional and value is None) and not allowed.allows(value):
                raise UserError(f"{name} {value!r}: {allowed.rule}{', or None' if optional else ''}")


@functools.cache
def _ranges(cls: type) -> list[tuple[str, Range, bool]]:
    """Name, range and whether None is allowed, of each field that has a range."""
    found = []
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        options = typing.get_args(hint)
        for part in (hint, *options):
            for extra in getattr(part, "__metadata__", ()):
                if isinstance(extra, Range):
                    found.append((name, extra, type(None) in options))
    return found
