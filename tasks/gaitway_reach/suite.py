"""The suite of reaching: what policies that bring a hand to poses are judged on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gaitway_sim2real.trial.commands import Commands, Told
from gaitway_sim2real.trial.scenario import Limit, Scenario
from gaitway_sim2real.trial.stressors import Links, Load
from gaitway_sim2real.trial.suite import Suite

from .metrics import BODIES, HAND, METRICS, PERIOD
from .stressors import EncoderNoise, JointFriction


def _poses(scenario: Scenario, told: Told, rng: np.random.Generator) -> np.ndarray:
    """A new pose every :data:`.metrics.PERIOD`, (T, N, 6)."""
    steps, period = told.steps(scenario.seconds), told.steps(PERIOD)
    drawn = np.stack([told.uniform(scenario.envs, rng) for _ in range(math.ceil(steps / period))])
    return np.repeat(drawn, period, axis=0)[:steps]


THERE = (
    Limit(metric="reached", value=0.95, at_least=True),
    Limit(metric="steady_position", value=0.015),
    Limit(metric="steady_orientation", value=0.1),
    Limit(metric="rest_speed", value=0.05),
    Limit(metric="torque_saturation", value=0.01),
)
SMOOTH = (
    *THERE,
    Limit(metric="reach_time", value=3.0),
    Limit(metric="torque_change", value=0.5),
    Limit(metric="joint_speed_peak", value=2.61),
    Limit(metric="joint_limit_use", value=0.01),
)


def _scenario(name: str, title: str, about: str, **changes: Any) -> Scenario:
    settings: dict[str, Any] = {"limits": THERE, "seconds": 2 * PERIOD, "commands": "poses", **changes}
    return Scenario(name=name, title=title, about=about, **settings)


SCENARIOS = (
    _scenario("poses", "Poses", "A new pose every 5 s, two for each robot, undisturbed.", limits=SMOOTH),
    _scenario("late", "Late drives", "Targets reach the drives up to 20 ms late.", delay=(0.0, 0.02)),
    _scenario("strength", "Weak and strong drives", "Drives give 90 to 110 % of their torque.", strength=(0.9, 1.1)),
    _scenario("load", "Load of 0.5 kg", "The hand carries 0.5 kg.", stressors=(Load(HAND, 0.5),)),
    _scenario("links", "Links off by 10 %", "Mass and inertia of each link are up to 10 % off.",
              stressors=(Links(0.1),)),
    _scenario("friction", "Dry friction", "Each joint has up to 1 N m of dry friction.",
              stressors=(JointFriction(1.0),)),
    _scenario("noise", "Noisy encoders", "Encoders are off by up to 0.01 rad and 0.1 rad/s.",
              stressors=(EncoderNoise(0.01, 0.1),)),
)  # fmt: skip

SUITE = Suite(
    version="reach 1.0",
    scenarios=SCENARIOS,
    metrics=METRICS,
    commands={"poses": Commands(draw=_poses)},
    bodies=BODIES,
    not_tested=("contacts: the hand touches nothing, and links of the arm pass through each other",),
)
