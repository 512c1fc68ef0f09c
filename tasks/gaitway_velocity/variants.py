"""The grounds and the bodies that a policy is tried on, and other changes made one at a time.

Floors are those of :mod:`..mujoco.floors`; the scenario named :data:`NOMINAL` is what the others are compared with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from gaitway_sim2real.mujoco.floors import FLOORS, NOMINAL
from gaitway_sim2real.mujoco.physics import Physics
from gaitway_sim2real.trial.scenario import NOMINAL_FRICTION, Scenario
from gaitway_sim2real.trial.sensitivity import Factor
from gaitway_sim2real.trial.stressors import Links

from .commands import MIXED
from .limits import BIAS, CORNERS, FALLS_5, GAIT_LIMITS, LINEAR, LINEAR_ON_TWO, YAW
from .metrics import METRICS

TRACKING = (LINEAR, LINEAR_ON_TWO, YAW, FALLS_5, CORNERS)
GAIT = tuple(limit for limit in GAIT_LIMITS if limit.metric not in (LINEAR.metric, YAW.metric))

FACTORS: dict[str, tuple[str, str, float | None]] = {
    "engine": ("Physics engine", "MuJoCo", None),
    "softness": ("Softness of the floor", "as modelled", FLOORS[NOMINAL].number),
    "cone": ("Friction cone", "as modelled", None),
    "step": ("Physics step", "5 ms", 5.0),
    "integrator": ("Integrator", "implicit, 5 ms", None),
    "foot_size": ("Size of the feet", "100 %", 1.0),
    "foot_shape": ("Shape of the feet", "as modelled", None),
    "links": ("Mass and inertia of links", "as modelled", 0.0),
    "friction": ("Friction", f"{NOMINAL_FRICTION}", NOMINAL_FRICTION),
    "payload": ("Payload", "0 kg", 0.0),
    "strength": ("Motor strength", "100 %", 1.0),
    "delay": ("Delay", "0 ms", 0.0),
}
"""Factors that the suite changes one at a time: title, and the nominal level as text and as a number.

A scenario may name another factor, which the nominal one is taken to be without."""

CONTACT = ("engine", "softness", "cone", "step", "integrator", "foot_size", "foot_shape", "links", "friction")
"""Factors that a floor, a simulator or a robot of the same kind may differ in."""


def _variant(factor: str, level: str, number: float | None = None, **changes: Any) -> Scenario:
    """Mixed commands, with one thing changed."""
    given: dict[str, Any] = {
        "commands": MIXED,
        "draws": MIXED,
        "envs": 60,
        "seconds": 8.0,
        "gait": True,
        "limits": (*GAIT, *TRACKING),
        "factor": factor,
        "level": level,
        "number": number,
    }
    return Scenario(**{**given, **changes})


def _friction(value: float) -> Scenario:
    return _variant(
        "friction", f"{value:.1f}", value,
        name=f"friction_{value:.1f}",
        title=f"Friction {value:.1f}",
        about=f"Sliding friction of the ground {value:.1f} instead of {NOMINAL_FRICTION}.",
        friction=(value, value),
        required=value >= 0.4,
    )  # fmt: skip


def _delay(milliseconds: int) -> Scenario:
    return _variant(
        "delay", f"{milliseconds} ms", milliseconds,
        name=f"delay_{milliseconds}ms",
        title=f"Delay {milliseconds} ms",
        about=f"Every joint target reaches the motors {milliseconds} ms late.",
        delay=(milliseconds / 1000, milliseconds / 1000),
        limits=(FALLS_5, CORNERS),
        required=milliseconds <= 20,
    )  # fmt: skip


def _payload(kilograms: float) -> Scenario:
    level = f"{kilograms:+.0f} kg".replace("-", "−")
    return _variant(
        "payload", level, kilograms,
        name=f"payload_{kilograms:+.0f}kg",
        title=f"Payload {level}",
        about=f"The base weighs {abs(kilograms):.0f} kg {'more' if kilograms > 0 else 'less'} than modelled.",
        payload=(kilograms, kilograms),
        limits=(FALLS_5, CORNERS),
    )  # fmt: skip


def _strength(factor: float) -> Scenario:
    return _variant(
        "strength", f"{round(100 * factor)} %", factor,
        name=f"strength_{round(100 * factor)}",
        title=f"Motor strength {round(100 * factor)} %",
        about=f"Motors deliver {round(100 * factor)} % of the torque they should.",
        strength=(factor, factor),
        limits=(FALLS_5, CORNERS),
    )  # fmt: skip


def _floor(name: str) -> Scenario:
    floor = FLOORS[name]
    return _variant(
        floor.factor, floor.level, floor.number,
        name=name, title=floor.title, about=floor.about, required=floor.required, physics=floor.physics,
    )  # fmt: skip


VARIANTS: tuple[Scenario, ...] = (
    _variant(
        "", "",
        name=NOMINAL,
        title=FLOORS[NOMINAL].title,
        about="Robots at the corners of the command ranges and within, robots that stand, and the command classes: "
        "what the following scenarios are compared with.",
        limits=(*GAIT, *BIAS, *TRACKING),
        engines=True,
    ),
    *(_floor(name) for name in FLOORS if name not in (NOMINAL, "stock_mujoco")),
    *(
        _variant(
            "foot_size", f"{round(100 * size)} %", size,
            name=f"foot_{name}",
            title=f"{name.capitalize()} feet",
            about=f"The soles are shapes of {round(100 * size)} % of their size: worn, or newly shod.",
            physics=Physics(foot_size=size),
        )
        for name, size in (("small", 0.85), ("large", 1.15))
    ),
    *(
        _variant("foot_shape", level, name=f"foot_{shape}", title=title, about=about, physics=Physics(foot_shape=shape))
        for shape, level, title, about in (
            ("capsule", "capsule", "Capsule feet", "Ball feet become short rolls that lie across the robot."),
            (
                "worn", "worn flat", "Worn feet",
                "Ball feet are worn flat where the robot stands on them, as wide as their radius.",
            ),
        )
    ),
    _variant(
        "links", "±5 %", 0.05,
        name="links_5",
        title="Links ±5 %",
        about="Mass and inertia of each link, each by itself, are up to 5 % off.",
        stressors=(Links(0.05),),
    ),
    _floor("stock_mujoco"),
    *(_friction(value) for value in (0.3, 0.4, 0.6, 0.9, 1.2)),
    *(_payload(kilograms) for kilograms in (-5.0, 5.0)),
    *(_strength(factor) for factor in (0.9, 1.1)),
    *(_delay(milliseconds) for milliseconds in (10, 20, 30, 40)),
)  # fmt: skip

DEPENDS = 0.5
"""Range of a metric over the levels of a factor, as a share of its nominal value, from which a gait depends on it."""


def spreads(factors: Iterable[Factor]) -> list[str]:
    """One sentence about how far apart floors, feet and solvers are: the factor and the metric that vary most."""
    found = []
    for factor in factors:
        if factor.name not in CONTACT:
            continue
        nominal = next(level for level in factor.levels if level.scenario == NOMINAL)
        for metric, usual in nominal.values.items():
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
    ends = " and ".join(f"{METRICS[metric].say(end.values[metric])} ({end.label})" for end in (low, high))
    return [f"this gait {verb} {factor.title.lower()}: {METRICS[metric].title.lower()} {ends}"]
