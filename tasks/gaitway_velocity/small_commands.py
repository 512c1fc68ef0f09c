"""Small commands: does the robot answer them, can an operator or a planner place it with them, and do its arms matter?

Limits are in metres and radians for robots of every size: a dock, a doorway and an operator's hand on the stick do not
shrink with the robot.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gaitway_sim2real.trial.commands import Commands
from gaitway_sim2real.trial.intervals import Samples
from gaitway_sim2real.trial.scenario import Limit, Scenario
from gaitway_sim2real.trial.simulate import Trajectory

from .arms import ArmsMoved
from .commands import MIXED
from .limits import FALLS_5
from .needs import ARMS
from .response import AXES, FINE, LEVELS, RESPONSE_METRICS, RESPONSES, Axis, in_words, response_samples
from .waypoints import WAYPOINT_METRICS, WAYPOINTS, waypoint_samples

SWEEPS = 4
"""Robots for each command of a response map."""
DEAD_ZONE, JUMP, SLOPE = 0.1 + FINE / 2, 0.15, 0.2
"""Sources of the figures: docs/gait_metrics.md."""

SMALL_KINDS: dict[str, Commands] = {**RESPONSES, "tour": WAYPOINTS}
"""Kinds of commands: a sweep along each axis, and a tour of waypoints."""
SMALL_METRICS = (*RESPONSE_METRICS, *WAYPOINT_METRICS)


def _response(name: str, axis: Axis) -> Scenario:
    return Scenario(
        name=name,
        title=f"Response: {axis.title}",
        about=f"One {axis.name} per robot for the whole time, from end to end of its range, in small steps near 0.",
        commands=name,
        envs=LEVELS * SWEEPS,
        seconds=6.0,
        limits=(
            Limit(metric=f"{axis.prefix}dead_zone", value=DEAD_ZONE),
            Limit(metric=f"{axis.prefix}response_jump", value=JUMP),
            Limit(metric="slope_error", value=SLOPE),
            FALLS_5,
        ),
    )


SMALL_COMMANDS: tuple[Scenario, ...] = (
    *(_response(name, axis) for name, axis in AXES.items()),
    Scenario(
        name="tour",
        title="Tour of waypoints",
        about="A proportional controller with commands of up to 0.3 m/s and 0.3 rad/s drives each robot from one "
        "waypoint to the next, 0.1 to 0.5 m and 10 to 45 degrees apart.",
        commands="tour",
        envs=56,
        seconds=30.0,
        limits=(Limit(metric="waypoints", value=0.95, at_least=True), FALLS_5),
    ),
    Scenario(
        name="arms_moved",
        title="Arms moved",
        about="All joints of the arms follow random, smooth motions, whatever the policy wants them to do.",
        commands=MIXED,
        envs=56,
        seconds=12.0,
        stressors=(ArmsMoved(),),
        needs=(ARMS,),
        limits=(Limit(metric="lin_vel_error", value=0.25), Limit(metric="yaw_vel_error", value=0.25), FALLS_5),
        required=False,
    ),
)


def small_samples(rec: Trajectory, scenario: Scenario) -> dict[str, Samples]:
    """:data:`SMALL_METRICS` of a recording."""
    return {**response_samples(rec, scenario.commands), **waypoint_samples(rec)}


def dead_zones(results: Iterable[Any]) -> list[str]:
    """One remark on the commands that are ignored, if there are any."""
    swept = [(AXES[result.name], result.metrics) for result in results if result.name in AXES]
    widths = [(axis, metrics.get(f"{axis.prefix}dead_zone", 0.0)) for axis, metrics in swept]
    said = "; ".join(in_words(axis, width) for axis, width in widths if width > 0.0)
    return [said] if said else []
