"""The verdict on ground: ladders of courses from easy to hard, and how far up each of them a policy walks.

Change anything here that changes a number and ``GROUND_VERSION`` goes up. It is not the suite's: the ladders decide no
PASS or FAIL, and are run on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gaitway_sim2real.trial.ladders import classes_of, ladder_title
from gaitway_sim2real.trial.result import ScenarioResult
from gaitway_sim2real.trial.scenario import Limit, Scenario
from gaitway_tasks.terrain.course import COURSES, SIZE, read_ground

from .command_classes import AHEAD_SPEED
from .commands import AHEAD

GROUND_VERSION = "2.0"
CROSSED = Limit(metric="crossed", value=0.9, at_least=True)
"""Limit of each rung."""
SECONDS = 20.0
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


def pictured(results: Iterable[ScenarioResult]) -> set[str]:
    """Names of the rungs that a report shows pictures of."""
    return {found.rung for found in classes_of(results) if found.ladder in PICTURED}
