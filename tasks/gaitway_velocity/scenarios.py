"""Validation suite: a seeded, versioned list of scenarios, as data.

Change anything here that changes a number and ``SUITE_VERSION`` goes up: two verdicts of the same version and seed are
comparable, others are not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gaitway_sim2real.mujoco.floors import FIRM, GAIT_FLOORS
from gaitway_sim2real.trial.scenario import Limit, Scenario
from gaitway_sim2real.trial.stressors import NOISE, SensorNoise
from gaitway_tasks.ground import Slope

from .command_classes import CLASSES
from .corners import STARTS
from .limits import (
    BIAS,
    CORNERS,
    FALLS_1,
    FALLS_5,
    GAIT_LIMITS,
    LIMP,
    LINEAR,
    LINEAR_ON_TWO,
    REST,
    STEPS_1,
    STEPS_5,
    YAW,
)
from .needs import VELOCITY
from .small_commands import SMALL_COMMANDS
from .variants import VARIANTS

SUITE_VERSION = "3.0"
"""3.0: responses to small commands, and a tour of waypoints with them. All other scenarios are those of 2.2.
2.2: robots with two feet must lift them by 0.02 L in place of 0.06 L, a foot of theirs drags below 0.007 L in place
of 0.02 L, and they may sway: linear errors of 0.20 in place of 0.15 m/s. Policies without commands are judged on
standing. Other robots have the limits and the numbers of 2.1."""
ROBOTS_1, ROBOTS_5 = 272, 56
"""Robots of which no fall shows, with 95 % certainty, that at most 1 % and 5 % fall."""
CORNER_ROBOTS = 8 * STARTS


def _incline(degrees: float) -> Slope:
    return Slope(angle=float(np.radians(degrees)))


def _slope(degrees: float) -> Scenario:
    return Scenario(
        name=f"slope_{degrees:.0f}deg",
        title=f"Slope {degrees:.0f}°",
        about=f"Ground inclined by {degrees:.0f} degrees; up, down and across.",
        ground=_incline(degrees),
        envs=ROBOTS_5,
        seconds=8.0,
        limits=(FALLS_5,),
        required=False,
    )


def _gait(name: str, suffix: str) -> Scenario:
    """The gait of one command class, on a floor where loaded feet do not creep."""
    kind, floor = CLASSES[name], GAIT_FLOORS[suffix]
    return Scenario(
        name=f"gait_{name}{suffix}",
        title=f"Gait on {floor.title}: {kind.title}" if suffix else f"Gait: {kind.title}",
        about=f"How the feet move when the command is {kind.title}, on {floor.about}; measured at every physics step.",
        commands=name,
        envs=12,
        seconds=8.0,
        physics=floor.physics,
        gait=True,
        engines=floor.physics == FIRM,
        limits=(*GAIT_LIMITS, LIMP) if kind.straight else GAIT_LIMITS,
    )


def _standing(name: str, title: str, about: str, **changes: Any) -> Scenario:
    given = {"envs": ROBOTS_5, "limits": (STEPS_5, *REST, FALLS_5), **changes}
    return Scenario(name=name, title=title, about=about, commands="standing", seconds=30.0, **given)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="command_grid",
        title="Command grid",
        about="One command per robot for the whole time: in each of 7 x 7 cells over (vx, vy) and over (vx, yaw rate), "
        "all corners, and random draws.",
        commands="grid",
        envs=ROBOTS_1 + CORNER_ROBOTS,
        seconds=20.0,
        limits=(LINEAR, LINEAR_ON_TWO, YAW, *BIAS, FALLS_1, CORNERS),
    ),
    _standing(
        "standing",
        "Standing still",
        "Zero command; drift is the distance between first and last position over the time between.",
        envs=ROBOTS_1,
        limits=(Limit(metric="drift", value=0.05), STEPS_1, *REST, FALLS_1),
    ),
    _standing(
        "standing_pushed",
        "Standing after a push",
        "Zero command, and one push of 0.5 m/s in a random direction.",
        push=0.5,
        push_once=True,
    ),
    _standing(
        "standing_slope",
        "Standing on a slope of 5°",
        "Zero command on ground inclined by 5 degrees; facing up, down and across.",
        ground=_incline(5.0),
    ),
    Scenario(
        name="straight",
        title="Straight ahead, back and sideways",
        about="Straight commands, forward slow and fast, backward and sideways; 10 s are measured.",
        commands="straight",
        envs=32,
        seconds=12.0,
        limits=(Limit(metric="heading_drift", value=0.03), Limit(metric="sideways_drift", value=0.05)),
    ),
    Scenario(
        name="stops",
        title="Stops",
        about="Full speed in all directions for 3 s, corners included, then zero.",
        commands="stops",
        envs=ROBOTS_1 + CORNER_ROBOTS,
        seconds=8.0,
        limits=(
            Limit(metric="stop_time", value=1.5),
            Limit(metric="stop_way", value=0.6),
            STEPS_1,
            *REST,
            FALLS_1,
            CORNERS,
        ),
    ),
    Scenario(
        name="command_steps",
        title="Command steps",
        about="A new random command every 4 s, stops and reversals included; errors count the transitions.",
        commands="steps",
        envs=64,
        seconds=20.0,
        limits=(Limit(metric="lin_vel_error", value=0.25), Limit(metric="yaw_vel_error", value=0.25), FALLS_5),
        needs=(VELOCITY,),
    ),
    *(_gait(name, suffix) for suffix in GAIT_FLOORS for name in CLASSES),
    Scenario(
        name="pushes",
        title="Pushes 0.5 m/s",
        about="Velocity steps of 0.5 m/s in random directions while walking or standing.",
        push=0.5,
        envs=64,
        seconds=20.0,
        limits=(Limit(metric="pushes_survived", value=0.95, at_least=True),),
    ),
    *VARIANTS,
    *SMALL_COMMANDS,
    Scenario(
        name="sensor_noise",
        title="Sensor noise",
        about=f"Uniform noise: gyro {NOISE['gyro']} rad/s, orientation {NOISE['orientation']} rad, joint positions "
        f"{NOISE['joint_pos']} rad, joint velocities {NOISE['joint_vel']} rad/s.",
        stressors=(SensorNoise(),),
        envs=ROBOTS_5,
        seconds=8.0,
        limits=(Limit(metric="lin_vel_error", value=0.2), FALLS_5),
        required=False,
    ),
    *(_slope(degrees) for degrees in (5.0, 10.0)),
    Scenario(
        name="pushes_hard",
        title="Pushes 1.0 m/s",
        about="Twice the required push.",
        push=1.0,
        envs=ROBOTS_5,
        seconds=8.0,
        limits=(Limit(metric="pushes_survived", value=0.8, at_least=True),),
        required=False,
    ),
    Scenario(
        name="everything",
        title="All at once",
        about="Friction 0.4-1.2, payload ±5 kg, strength ±10 %, delay 0-20 ms, sensor noise, pushes of 0.5 m/s.",
        commands="steps",
        push=0.5,
        friction=(0.4, 1.2),
        payload=(-5.0, 5.0),
        strength=(0.9, 1.1),
        delay=(0.0, 0.02),
        stressors=(SensorNoise(),),
        seconds=12.0,
        limits=(Limit(metric="falls", value=0.1),),
        required=False,
    ),
)

NOT_TESTED = (
    "ground that gives way for good: sand, gravel, grass, snow",
    "wear of the soles and floors that are wet or dirty in places: friction is the same everywhere",
    "heat, battery voltage, gear backlash and flexible links",
    "faults: a dead joint, a frozen encoder, lost messages",
    "collisions with people or objects",
    "other physics than MuJoCo's, unless an engine beside it is named: its floors are springs and dampers",
    "falls rarer than the intervals tell, and combinations of changes but the one named 'All at once'",
)
"""Said in the report, so that a PASS is not read as more than it is."""
NO_GROUND = "stairs, steps, gaps and rough ground: --rough judges them"
NOT_ON_GROUND = (
    "other speeds, turns, stops, pushes and payloads on stairs and rough ground, and ways longer than 4 m",
    "stairs without risers, loose or slippery stones, and maps of the ground that are late, noisy or wrong",
)


def not_tested(on_ground: bool) -> tuple[str, ...]:
    """:data:`NOT_TESTED`, and what was not tested of rough ground, with or without its ladders."""
    return (*(NOT_ON_GROUND if on_ground else (NO_GROUND,)), *NOT_TESTED)
