"""The verdict on ground: ladders of courses from easy to hard, and how far up each of them a policy walks.

Change anything here that changes a number and ``GROUND_VERSION`` goes up. It is not the suite's: the ladders decide no
PASS or FAIL, and are run on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Protocol

from gaitway_tasks.ground import Ground
from gaitway_tasks.terrain.course import COURSES, SIZE, Course, read_ground

from .command_classes import AHEAD_SPEED
from .metrics import format_value
from .scenario import AHEAD, Limit, Scenario

GROUND_VERSION = "2.0"
CROSSED = Limit(metric="crossed", value=0.9, at_least=True)
"""Limit of each rung."""
HOPELESS, IN_A_ROW = 0.5, 2
"""Climbing stops after so many rungs in a row that less than this share of the robots crossed."""
SECONDS = 20.0
GAVE_UP = f"fewer than {100 * HOPELESS:.0f} % of the robots crossed each of the {IN_A_ROW} rungs below"
WAY = SIZE / 2
"""Distance from the middle of a course to its edge, and on a slope from the start along x or y [m]."""
STEPS = (0.025, 0.05, 0.075, 0.10, 0.125, 0.15, 0.18, 0.20)
LADDERS: dict[str, tuple[float, ...]] = {
    "stairs-up": STEPS,
    "stairs-down": STEPS,
    "slope": (5.0, 10.0, 15.0, 20.0),
    "grid": (0.025, 0.05, 0.075, 0.10, 0.15),
    "rough": (0.02, 0.04, 0.06, 0.08, 0.10),
    "kerbs": (0.03, 0.05, 0.08, 0.10, 0.13),
    "rubble": (0.03, 0.05, 0.08, 0.10, 0.15),
    "gap": (0.10, 0.20, 0.30),
    "stones": (0.10, 0.20),
}
"""Rungs by the name of the ground: the number that :func:`read_ground` takes, in metres or degrees."""
RANDOM = ("grid", "rough", "rubble", "stones")
"""Ladders whose courses are drawn at random: some tiles have an easy way out, so that robots walk on several."""
TILES = 4
PICTURED = ("stairs-up", "stairs-down")
BESIDE = {("stairs-up", 0.10): "tread=0.25", ("stairs-down", 0.10): "tread=0.25"}
"""Rungs after which a variant is walked that is shown and no rung."""


ABOUT = (
    f"A class is the highest rung that at least {100 * CROSSED.value:.0f} % of the robots cross, with the whole "
    "interval, as they do all rungs below. Robots start in the middle of a course in random directions, are told to go "
    f"ahead at {AHEAD_SPEED:g} m/s, and are steered back to their heading. A robot has crossed when it is {WAY:g} m "
    f"from its start along x or y within {SECONDS:g} s, without a fall before. Steps have vertical risers and treads "
    "of 0.3 m, or as said. The controller's safety filter is in between, as on a robot: it cuts off targets that ask "
    "for more than a motor has, and stops a robot whose drives do not follow."
)
"""Explanation for readers of a report."""


def ladder_title(name: str) -> str:
    return COURSES[name].title if name in COURSES else name.capitalize()


def ladder_axis(name: str) -> str:
    """Axis title of a ladder, with the unit of :attr:`.Scenario.number`."""
    return f"{COURSES[name].number} [cm]" if name in COURSES else "inclination [°]"


def _rung(name: str, value: float, variant: str = "") -> Scenario:
    number, unit = (round(100 * value, 6), " cm") if name in COURSES else (value, "°")
    level = f"{number:g}{unit}" + (f", {variant.replace('=', ' ')} m" if variant else "")
    text = f"{name}:{value:g}" + (f",{variant}" if variant else "")
    return Scenario(
        name=text,
        title=f"{ladder_title(name)}, {level}",
        about=f"The ground {text}, crossed in random directions at {AHEAD_SPEED:g} m/s.",
        limits=(CROSSED,),
        required=False,
        envs=32,
        seconds=SECONDS,
        commands=AHEAD,
        ground=read_ground(text),
        tiles=TILES if name in RANDOM else 1,
        way=WAY,
        guarded=True,
        ladder=name,
        draws="ground",
        level=level,
        number=None if variant else number,
    )


def ladder(name: str, rungs: Sequence[float]) -> list[Scenario]:
    """A scenario for each rung, from easy to hard, and those :data:`BESIDE` them."""
    found = []
    for value in rungs:
        found.append(_rung(name, value))
        if (name, value) in BESIDE:
            found.append(_rung(name, value, BESIDE[name, value]))
    return found


ROUGH: tuple[Scenario, ...] = tuple(rung for name, rungs in LADDERS.items() for rung in ladder(name, rungs))
"""All rungs of all ladders."""


def another_tile(ground: Ground, number: int) -> Ground:
    """Course of the draws ``number`` seeds further on; other grounds as they are."""
    return replace(ground, seed=ground.seed + number) if isinstance(ground, Course) else ground


class Result(Protocol):
    """The part of a scenario's result that is read here."""

    @property
    def name(self) -> str: ...
    @property
    def ladder(self) -> str: ...
    @property
    def level(self) -> str: ...
    @property
    def number(self) -> float | None: ...
    @property
    def envs(self) -> int: ...
    @property
    def passed(self) -> bool: ...
    @property
    def metrics(self) -> dict[str, float]: ...
    @property
    def intervals(self) -> dict[str, tuple[float, float]]: ...


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


def hopeless(results: Iterable[Result]) -> bool:
    """True if a ladder whose rungs so far are ``results`` is not climbed further."""
    last = [result for result in results if result.number is not None][-IN_A_ROW:]
    return len(last) == IN_A_ROW and all(result.metrics["crossed"] < HOPELESS for result in last)


@dataclass(frozen=True, kw_only=True)
class GroundClass:
    """Ground class of a policy: the highest rung of a ladder that it crosses, and all below."""

    ladder: str
    level: str
    """Level as text, with its unit; empty if it crosses none."""
    number: float | None
    rung: str
    """Name of the scenario of that rung; where it crosses none, of the lowest."""
    said: str
    """Measurements at that rung and at the next."""

    def sentence(self) -> str:
        """Class in words, for example "stairs up: 10 cm (100.0 % of 32 robots crossed, ...; 12.5 cm: ...)"."""
        return f"{ladder_title(self.ladder).lower()}: {self.level or 'none'} ({self.said})"


def ground_classes(results: Iterable[Result]) -> tuple[GroundClass, ...]:
    """The class of each ladder that was climbed. A rung counts if its whole interval is at or above the limit."""
    ladders: dict[str, list[Result]] = {}
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
        found.append(GroundClass(ladder=name, level=level, number=number, rung=[*held[-1:], *above][0].name, said=said))
    return tuple(found)


def pictured(results: Iterable[Result]) -> set[str]:
    """Names of the rungs that a report shows pictures of."""
    return {found.rung for found in ground_classes(results) if found.ladder in PICTURED}


def _said(result: Result) -> str:
    value, low, high = (
        format_value("crossed", number) for number in (result.metrics["crossed"], *result.intervals["crossed"])
    )
    doubt = ", undecided" * (not result.passed and result.metrics["crossed"] >= CROSSED.value)
    return f"{value} of {result.envs} robots crossed, {low.removesuffix(' %')} to {high}{doubt}"
