"""Sensitivity of a policy to one change at a time: a table from the scenarios that the suite runs anyway."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .result import ScenarioResult
from .suite import Suite


@dataclass(frozen=True, kw_only=True)
class Level:
    """One value of a factor."""

    label: str
    """Level as text, with its unit."""
    number: float | None
    """Level as a number; None for a shape, say."""
    scenario: str
    """Name of the scenario that was run at it."""
    values: dict[str, float]
    """Key metrics, in their own units; NaN where nothing was measured."""
    change: dict[str, float]
    """Value minus that of the nominal level."""


@dataclass(frozen=True, kw_only=True)
class Factor:
    """A thing that was changed alone, from lowest to highest level; the nominal one is among them."""

    name: str
    title: str
    levels: tuple[Level, ...]


def sensitivity(results: Iterable[ScenarioResult], suite: Suite) -> tuple[Factor, ...]:
    """The table; empty if the nominal scenario was not run. Factors of which no level was run are left out."""
    results = tuple(results)
    nominal = next((result for result in results if result.name == suite.nominal), None)
    if nominal is None:
        return ()
    table = []
    for name in dict.fromkeys([*suite.factors, *(result.factor for result in results if result.factor)]):
        title, label, number = suite.factors.get(name, (name.capitalize(), "without", 0.0))
        others = [result for result in results if result.factor == name]
        if not others:
            continue
        levels = [_level(nominal, nominal, label, number, suite)]
        levels += [_level(result, nominal, result.level, result.number, suite) for result in others]
        if all(level.number is not None for level in levels):
            levels.sort(key=lambda level: level.number or 0.0)
        table.append(Factor(name=name, title=title, levels=tuple(levels)))
    return tuple(table)


def _level(result: ScenarioResult, nominal: ScenarioResult, label: str, number: float | None, suite: Suite) -> Level:
    known = [metric for metric in suite.key_metrics if metric in result.metrics]
    values = {metric: result.metrics[metric] for metric in known}
    change = {metric: values[metric] - nominal.metrics.get(metric, math.nan) for metric in known}
    return Level(label=label, number=number, scenario=result.name, values=values, change=change)
