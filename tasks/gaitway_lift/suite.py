"""The suite of lifting: what policies that bring an object to places are judged on."""

from __future__ import annotations

from typing import Any

from gaitway_sim2real.trial.scenario import Limit, Scenario
from gaitway_sim2real.trial.suite import Suite

from .metrics import BODIES, METRICS, SECONDS
from .stressors import ObjectFriction, ObjectMass, ObjectNoise, ObjectSize

THERE = (
    Limit(metric="success", value=0.9, at_least=True),
    Limit(metric="drops", value=0.1),
    Limit(metric="steady_distance", value=0.025),
    Limit(metric="rest_speed", value=0.1),
)
SMOOTH = (
    *THERE,
    Limit(metric="goal_time", value=5.0),
    Limit(metric="joint_speed_peak", value=2.61),
    Limit(metric="torque_saturation", value=0.02),
)


def _scenario(name: str, title: str, about: str, **changes: Any) -> Scenario:
    settings: dict[str, Any] = {"limits": THERE, "seconds": SECONDS, "commands": "random", **changes}
    return Scenario(name=name, title=title, about=about, **settings)


SCENARIOS = (
    _scenario("lift", "Lift", "The object as in training, at places of the task, undisturbed.", limits=SMOOTH),
    _scenario("late", "Late drives", "Targets reach the drives up to 20 ms late.", delay=(0.0, 0.02)),
    _scenario("strength", "Weak and strong drives", "Drives give 90 to 110 % of their torque.", strength=(0.9, 1.1)),
    _scenario("mass", "Light and heavy", "The object has half to three times its mass.",
              stressors=(ObjectMass(0.5, 3.0),)),
    _scenario("friction", "Slippery", "Sliding friction of the object is 0.5 to 1.",
              stressors=(ObjectFriction(0.5, 1.0),)),
    _scenario("size", "Small and large", "Edges of the object are up to 10 % off.", stressors=(ObjectSize(0.9, 1.1),)),
    _scenario("place", "Place not exact", "The object seems up to 5 mm off, and up to 5 mm more in each step.",
              stressors=(ObjectNoise(0.005, 0.005),)),
)  # fmt: skip

SUITE = Suite(
    version="lift 1.0",
    scenarios=SCENARIOS,
    metrics=METRICS,
    bodies=BODIES,
    not_tested=(
        "objects that are turned about the vertical, have another shape, or stand close to each other",
        "cameras: the simulation's own place of the object is read, or one with noise",
        "contacts of the arm with itself",
    ),
)
