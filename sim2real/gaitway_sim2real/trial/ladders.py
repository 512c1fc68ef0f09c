"""Ladders of scenarios from easy to hard, and how far up each of them a policy gets: its class."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile

from gaitway_tasks.ground import Ground
from gaitway_tasks.terrain.course import COURSES, Course

from .result import ScenarioResult
from .scenario import Scenario

HOPELESS, IN_A_ROW = 0.5, 2
"""Climbing stops after so many rungs in a row that less than this share of the robots passed."""
GAVE_UP = f"fewer than {100 * HOPELESS:.0f} % of the robots crossed each of the {IN_A_ROW} rungs below"


def ladder_title(name: str) -> str:
    """Title of a ladder for readers."""
    return COURSES[name].title if name in COURSES else name.capitalize()


def another_tile(ground: Ground, number: int) -> Ground:
    """Course of the draws ``number`` seeds further on; other grounds as they are."""
    return replace(ground, seed=ground.seed + number) if isinstance(ground, Course) else ground


def on_tiles(scenario: Scenario) -> list[Scenario]:
    """The scenario once for each of its tiles, with a part of its robots."""
    if scenario.tiles == 1:
        return [scenario]
    robots = [len(range(k, scenario.envs, scenario.tiles)) for k in range(scenario.tiles)]
    return [
        replace(scenario, envs=n, ground=another_tile(scenario.ground, k), draws=f"{scenario.draws}/tile {k}")
        for k, n in enumerate(robots)
        if n
    ]


def hopeless(results: Iterable[ScenarioResult]) -> bool:
    """True if a ladder whose rungs so far are ``results`` is not climbed further."""
    last = [result for result in results if result.number is not None][-IN_A_ROW:]
    return len(last) == IN_A_ROW and all(result.checks[0].value < HOPELESS for result in last)


@dataclass(frozen=True, kw_only=True)
class Class:
    """Class of a policy: the highest rung of a ladder that it holds, and all below."""

    ladder: str
    level: str
    """Level as text, with its unit; empty if it holds none."""
    number: float | None
    rung: str
    """Name of the scenario of that rung; where it holds none, of the lowest."""
    said: str
    """Measurements at that rung and at the next."""

    def sentence(self) -> str:
        """Class in words, for example "stairs up: 10 cm (100.0 % of 32 robots crossed, ...; 12.5 cm: ...)"."""
        return f"{ladder_title(self.ladder).lower()}: {self.level or 'none'} ({self.said})"


def classes_of(results: Iterable[ScenarioResult]) -> tuple[Class, ...]:
    """The class of each ladder that was climbed. A rung counts if its whole interval is within its first limit."""
    ladders: dict[str, list[ScenarioResult]] = {}
    for result in results:
        if result.ladder and result.number is not None:
            ladders.setdefault(result.ladder, []).append(result)
    found = []
    for name, rungs in ladders.items():
        held = list(takewhile(lambda rung: rung.passed, rungs))
        above = rungs[len(held) : len(held) + 1]
        told = [*map(_said, held[-1:]), *(f"{rung.level}: {_said(rung)}" for rung in above)]
        said = "; ".join([*told, *([] if above else ["nothing harder was tried"])])
        level, number = (held[-1].level, held[-1].number) if held else ("", None)
        found.append(Class(ladder=name, level=level, number=number, rung=[*held[-1:], *above][0].name, said=said))
    return tuple(found)


def _said(result: ScenarioResult) -> str:
    check = result.checks[0]
    value, low, high = (check.said(number) for number in (check.value, check.low, check.high))
    doubt = ", undecided" * check.undecided
    return f"{value} of {result.envs} robots crossed, {low.removesuffix(' %')} to {high}{doubt}"
