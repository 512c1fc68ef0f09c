"""Sensitivity of a gait to one change at a time: a table from the scenarios that the suite runs anyway."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from .metrics import METRICS, format_value
from .variants import CONTACT, FACTORS, NOMINAL

KEY_METRICS = (
    "lin_vel_error", "yaw_vel_error", "falls", "slip", "swing_time", "step_rate", "clearance", "cost_of_transport",
)  # fmt: skip
"""Metrics of the table."""
DEPENDS = 0.5
"""Range of a metric over the levels of a factor, as a share of its nominal value, from which a gait depends on it."""


class Result(Protocol):
    """The part of a scenario's result that is read here."""

    @property
    def name(self) -> str: ...
    @property
    def factor(self) -> str: ...
    @property
    def level(self) -> str: ...
    @property
    def number(self) -> float | None: ...
    @property
    def metrics(self) -> dict[str, float]: ...


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

    @property
    def nominal(self) -> Level:
        return next(level for level in self.levels if level.scenario == NOMINAL)


def sensitivity(results: Iterable[Result]) -> tuple[Factor, ...]:
    """The table; empty if the nominal scenario was not run. Factors of which no level was run are left out."""
    results = tuple(results)
    nominal = next((result for result in results if result.name == NOMINAL), None)
    if nominal is None:
        return ()
    table = []
    for name in dict.fromkeys([*FACTORS, *(result.factor for result in results if result.factor)]):
        title, label, number = FACTORS.get(name, (name.capitalize(), "without", 0.0))
        others = [result for result in results if result.factor == name]
        if not others:
            continue
        levels = [_level(nominal, nominal, label, number)]
        levels += [_level(result, nominal, result.level, result.number) for result in others]
        if all(level.number is not None for level in levels):
            levels.sort(key=lambda level: level.number or 0.0)
        table.append(Factor(name=name, title=title, levels=tuple(levels)))
    return tuple(table)


def _level(result: Result, nominal: Result, label: str, number: float | None) -> Level:
    known = [metric for metric in KEY_METRICS if metric in result.metrics]
    values = {metric: result.metrics[metric] for metric in known}
    change = {metric: values[metric] - nominal.metrics.get(metric, math.nan) for metric in known}
    return Level(label=label, number=number, scenario=result.name, values=values, change=change)


def spreads(factors: Iterable[Factor]) -> list[str]:
    """One sentence about how far apart floors, feet and solvers are: the factor and the metric that vary most."""
    found = []
    for factor in factors:
        if factor.name not in CONTACT:
            continue
        for metric, usual in factor.nominal.values.items():
            levels = sorted(
                (level for level in factor.levels if not math.isnan(level.values[metric])),
                key=lambda level: level.values[metric],
            )
            if metric != "falls" and usual > 0 and len(levels) > 1:
                low, high = levels[0], levels[-1]
                found.append(((high.values[metric] - low.values[metric]) / usual, factor, metric, low, high))
    if not found:
        return []
    size, factor, metric, low, high = max(found, key=lambda row: row[0])
    verb = "depends on" if size > DEPENDS else "hardly depends on contacts, most on"
    ends = " and ".join(f"{format_value(metric, end.values[metric])} ({end.label})" for end in (low, high))
    return [f"this gait {verb} {factor.title.lower()}: {METRICS[metric].title.lower()} {ends}"]
