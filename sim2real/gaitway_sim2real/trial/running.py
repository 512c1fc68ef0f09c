"""Scenarios in MuJoCo: the robot on each ground, every draw, and a recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_tasks.ground import LEVEL, Ground

from ..bundle.batched_policy import BatchedPolicy, SideBySide
from ..mujoco.plant import NOMINAL_PHYSICS, Physics, Plant, build_plant
from .conditions import Conditions
from .ladders import another_tile
from .scenario import Scenario
from .schedule import MOST_REPETITIONS
from .simulate import Trajectory, simulate
from .suite import Suite

FULL_PAYLOAD_MASS = 40.0
"""Robots lighter than this [kg] carry payloads in proportion."""
MOST_TAKEN_AWAY = 0.5
"""Share of the base's mass that a negative payload may take: a humanoid's base is a pelvis of a few kilograms."""


class Plants:
    """The robot on each ground and under each physics that the suite needs, compiled once."""

    def __init__(self, contract: Contract, path: Path, reference: Path) -> None:
        self._args = (contract, path, reference)
        self._known: dict[tuple[Ground, Physics, bool], Plant] = {}

    def get(self, ground: Ground = LEVEL, physics: Physics = NOMINAL_PHYSICS, gait: bool = False) -> Plant:
        """Plant for a scenario; with ``gait``, feet are recorded at every physics step."""
        key = (ground, physics, gait)
        if key not in self._known:
            self._known[key] = build_plant(*self._args, ground=ground, physics=physics, gait=gait)
        return self._known[key]

    def of(self, scenario: Scenario) -> Plant:
        """The robot that ``scenario`` is run on."""
        return self.get(scenario.ground, scenario.physics, scenario.gait)


def run_scenario(
    suite: Suite,
    bundle: Path,
    contract: Contract,
    plants: Plants,
    scenario: Scenario,
    seed: int,
    threads: int = 1,
    repetition: int = 0,
) -> Trajectory:
    """:func:`run_scenarios` for one scenario of ``bundle``."""
    policy = BatchedPolicy(bundle / "policy.onnx", contract, scenario.envs)
    (recording,) = run_scenarios(suite, policy, contract, plants, [scenario], seed, threads, repetition)
    return recording


def run_scenarios(
    suite: Suite,
    policy: BatchedPolicy,
    contract: Contract,
    plants: Plants,
    scenarios: Sequence[Scenario],
    seed: int,
    threads: int = 1,
    repetition: int = 0,
    *,
    keep_qpos: bool = False,
) -> list[Trajectory]:
    """Draw and simulate scenarios as one batch; each ``repetition`` has draws of its own, of its course too.

    Several scenarios must be those of one of :func:`.schedule.lots`. Numbers do not depend on who is beside.
    """
    number = (seed * MOST_REPETITIONS + repetition) * scenarios[0].tiles
    plant = plants.of(replace(scenarios[0], ground=another_tile(scenarios[0].ground, number)))
    conditions = [conditions_of(suite, contract, scenario, seed, repetition) for scenario in scenarios]
    together = Conditions.side_by_side(conditions)
    payload = together.payload * min(1.0, plant.mass / FULL_PAYLOAD_MASS)
    least = -MOST_TAKEN_AWAY * plant.model.body_mass[plant.base_body]
    together = replace(together, payload=np.maximum(payload, least))
    robots = SideBySide([policy.fresh(scenario.envs) for scenario in scenarios])
    recording = simulate(
        plant, contract, robots, together, threads=threads, bodies=suite.recorded(contract), keep_qpos=keep_qpos
    )
    ends = np.cumsum([scenario.envs for scenario in scenarios]).tolist()
    return [recording.of(slice(start, end)) for start, end in zip([0, *ends], ends, strict=False)]


def conditions_of(suite: Suite, contract: Contract, scenario: Scenario, seed: int, repetition: int) -> Conditions:
    """The draws of a scenario, other ones for each ``repetition``."""
    if repetition:
        scenario = replace(scenario, draws=f"{scenario.draws or scenario.name}/{repetition}")
    return suite.draw(scenario, contract, seed)
