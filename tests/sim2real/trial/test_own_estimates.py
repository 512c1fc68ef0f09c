"""The error of what a policy estimates for itself is that against the simulation, scenario by scenario."""

from __future__ import annotations

import math
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np
import pytest
from estimating import estimating_bundle
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
from gaitway_sim2real.mujoco.plant import build_plant
from gaitway_sim2real.mujoco.robots import RobotBatch
from gaitway_sim2real.trial.judging import validate_bundle
from gaitway_sim2real.trial.simulate import simulate
from gaitway_velocity.metrics import compute_metrics, measure
from gaitway_velocity.scenarios import SCENARIOS
from gaitway_velocity.suite import SUITE
from stand_bundle import make_stand_bundle

NAME = "estimated_base_lin_vel"
STANDING = replace(next(s for s in SCENARIOS if s.name == "standing"), envs=3, seconds=1.0)
SHORT = tuple(replace(s, envs=4, seconds=1.0) for s in SCENARIOS if s.name in ("gait_turning", "standing"))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return estimating_bundle(tmp_path_factory)


def test_each_step_is_compared_with_the_velocity_that_the_signals_came_from(bundle: Path) -> None:
    contract = Contract.load(bundle)
    plant = build_plant(contract, bundle / "robot.xml", bundle / "robot.xml")
    conditions = replace(SUITE.draw(STANDING, contract, 0), delay=np.zeros(3))
    conditions = replace(conditions, push=0.0 * conditions.push)
    seen = simulate(plant, contract, BatchedPolicy(bundle / "policy.onnx", contract, 3), conditions)
    assert seen.own_velocity_error is not None
    robots, policy = RobotBatch(plant, contract, 3), BatchedPolicy(bundle / "policy.onnx", contract, 3)
    robots.randomise(friction=conditions.friction, payload=conditions.payload, strength=conditions.strength)
    robots.place(yaw=conditions.yaw, joint_offset=conditions.joint_offset, velocity=conditions.velocity)
    for step in range(20):
        truth = robots.lin_vel().copy()
        robots.ctrl[:], _ = policy({**robots.signals(), "command": conditions.command[step]})
        np.testing.assert_allclose(seen.own_velocity_error[step], policy.estimates[NAME] - truth, atol=1e-5)
        robots.step(plant.decimation)
    expected = np.sqrt((seen.own_velocity_error.astype(float) ** 2).sum(-1).mean(0)).mean()
    assert seen.alive.all() and compute_metrics(seen, contract)["own_velocity_error"] == pytest.approx(expected)
    one = seen.of(slice(1, 2)).own_velocity_error
    np.testing.assert_array_equal(one, seen.own_velocity_error[:, 1:2])


def test_the_report_has_a_row_for_each_kind_of_command(bundle: Path, tmp_path: Path) -> None:
    verdict = validate_bundle(bundle, scenarios=SHORT, report_dir=tmp_path, video=False, processes=1)
    page = (tmp_path / "report.html").read_text()
    section = page.rpartition("Velocity as the policy estimates it</h2>")[2].partition("</details>")[0]
    for result in verdict.scenarios:
        assert result.metrics["own_velocity_error"] > 0.01 and escape(result.title) in section
        low, high = result.intervals["own_velocity_error"]
        assert low < result.metrics["own_velocity_error"] < high


def test_a_policy_that_estimates_nothing_has_no_such_error(tmp_path: Path) -> None:
    bundle = make_stand_bundle(tmp_path / "bundle")
    contract = Contract.load(bundle)
    plant = build_plant(contract, bundle / "robot.xml", bundle / "robot.xml")
    conditions = SUITE.draw(STANDING, contract, 0)
    seen = simulate(plant, contract, BatchedPolicy(bundle / "policy.onnx", contract, 3), conditions)
    assert seen.own_velocity_error is None and math.isnan(measure(seen, contract)["own_velocity_error"].value)
