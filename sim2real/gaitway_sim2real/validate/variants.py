"""The grounds and the bodies that a policy is tried on, and other changes made one at a time.

No floor lets the loaded feet of a robot that stands still creep apart, so no variant that decides a verdict does. How
far feet sink is measured on ANYmal C in its default pose.
"""

from __future__ import annotations

from typing import Any

from ..mujoco.physics import Physics
from .scenario import BIAS, CORNERS, FALLS_5, GAIT_LIMITS, LINEAR, MIXED, NOMINAL_FRICTION, YAW, Scenario

TRACKING = (LINEAR, YAW, FALLS_5, CORNERS)
GAIT = tuple(limit for limit in GAIT_LIMITS if limit.metric not in (LINEAR.metric, YAW.metric))

FACTORS: dict[str, tuple[str, str, float | None]] = {
    "engine": ("Physics engine", "MuJoCo", None),
    "softness": ("Softness of the floor", "as modelled", 2.2),
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
"""What the suite changes one at a time: title, and what it is in the nominal scenario, for people and as a number."""

CONTACT = ("engine", "softness", "cone", "step", "integrator", "foot_size", "foot_shape", "links", "friction")
"""Factors that a floor, a simulator or a robot of the same kind may differ in."""

NOMINAL = "nominal"
"""Name of the scenario that the others are compared with."""


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


def _floor(
    name: str, factor: str, level: str, title: str, about: str, number: float | None = None, **changes: Any
) -> Scenario:
    """``changes`` are of :class:`Physics`, and ``required``."""
    required = changes.pop("required", True)
    return _variant(
        factor, level, number, name=name, title=title, about=about, required=required, physics=Physics(**changes)
    )


VARIANTS: tuple[Scenario, ...] = (
    _variant(
        "",
        "",
        name=NOMINAL,
        title="Nominal floor",
        about="Robots at the corners of the command ranges and within, robots that stand, and the command classes: "
        "what the following scenarios are compared with.",
        limits=(*GAIT, *BIAS, *TRACKING),
    ),
    _floor(
        "floor_hard",
        "softness",
        "hard",
        "Hard floor",
        "Hard soles on stone: the feet of a standing ANYmal sink in by 0.8 mm instead of 2.2 mm.",
        0.8,
        solref=(0.01, 1.0),
        solimp=(0.95, 0.99, 0.001),
    ),
    _floor(
        "floor_soft",
        "softness",
        "soft",
        "Soft floor",
        "Rubber soles on a thick carpet: the feet of a standing ANYmal sink in by 6.6 mm.",
        6.6,
        solref=(0.02, 1.0),
        solimp=(0.9, 0.97, 0.001),
    ),
    _floor(
        "floor_mat",
        "softness",
        "mat",
        "Gym mat",
        "The feet of a standing ANYmal sink in by 11 mm, with MuJoCo's default softness.",
        11.0,
        solref=(0.02, 1.0),
        solimp=(0.9, 0.95, 0.001),
        required=False,
    ),
    _floor(
        "cone_pyramidal",
        "cone",
        "pyramidal",
        "Pyramidal friction",
        "Friction is larger along two axes than between them, as in many training simulators; feet do not creep.",
        cone="pyramidal",
        impratio=100.0,
    ),
    _floor(
        "step_2.5ms",
        "step",
        "2.5 ms",
        "Physics step 2.5 ms",
        "The same floor in steps half as long.",
        2.5,
        timestep=0.0025,
    ),
    _floor(
        "integrator_euler",
        "integrator",
        "Euler, 2.5 ms",
        "Euler's integrator",
        "Velocities are integrated by Euler's method, in steps of 2.5 ms.",
        timestep=0.0025,
        integrator="euler",
    ),
    *(
        _floor(
            f"foot_{name}",
            "foot_size",
            f"{round(100 * size)} %",
            f"{name.capitalize()} feet",
            f"The soles are shapes of {round(100 * size)} % of their size: worn, or newly shod.",
            size,
            foot_size=size,
        )
        for name, size in (("small", 0.85), ("large", 1.15))
    ),
    _floor(
        "foot_capsule",
        "foot_shape",
        "capsule",
        "Capsule feet",
        "Ball feet become short rolls that lie across the robot.",
        foot_shape="capsule",
    ),
    _floor(
        "foot_worn",
        "foot_shape",
        "worn flat",
        "Worn feet",
        "Ball feet are worn flat where the robot stands on them, as wide as their radius.",
        foot_shape="worn",
    ),
    _variant(
        "links",
        "±5 %",
        0.05,
        name="links_5",
        title="Links ±5 %",
        about="Mass and inertia of each link, each by itself, are up to 5 % off.",
        links=0.05,
    ),
    _floor(
        "stock_mujoco",
        "",
        "",
        "MuJoCo's defaults",
        "MuJoCo as installed: pyramidal cones, impratio 1, default softness, Euler steps of 2 ms. No floor is like "
        "that: the feet of a robot that stands still slide apart.",
        timestep=0.002,
        integrator="euler",
        cone="pyramidal",
        impratio=1.0,
        solref=(0.02, 1.0),
        solimp=(0.9, 0.95, 0.001),
        required=False,
    ),
    *(_friction(value) for value in (0.3, 0.4, 0.6, 0.9, 1.2)),
    *(_payload(kilograms) for kilograms in (-5.0, 5.0)),
    *(_strength(factor) for factor in (0.9, 1.1)),
    *(_delay(milliseconds) for milliseconds in (10, 20, 30, 40)),
)
