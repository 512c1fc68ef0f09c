"""The suite of reaching: what its scenarios tell and change, and that broken policies fail it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gaitway_files import trust as trusting
from gaitway_onboard.bundle.contract import Contract
from gaitway_reach.metrics import PERIOD
from gaitway_reach.stressors import EncoderNoise, JointFriction
from gaitway_reach.suite import SCENARIOS, SUITE
from gaitway_sim2real.bundle.in_memory import contract_before_training
from gaitway_sim2real.trial import validate_bundle
from gaitway_sim2real.trial.examination import Examiner
from gaitway_sim2real.trial.running import Plants, run_scenario
from gaitway_sim2real.trial.stressors import SensorNoise
from gaitway_sim2real.trial.suites import suite_of
from gaitway_tasks.reach.poses import poses_held
from gaitway_tasks.registry import get_task
from torch import nn

from gaitway.cli import main

SMALL = ["num_envs=4", "agent.num_steps=8", "total_steps=64", "agent.optimizer.minibatches=1", "num_threads=1",
         "evaluation_episodes=2", "task.timing.episode_length_s=0.4", "agent.first_guess=false"]  # fmt: skip
TASK = get_task("reach-franka", "cpu")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A policy of a few updates, which reaches nothing."""
    folder = tmp_path_factory.mktemp("reach")
    assert main(["train", "reach-franka", "--preset", "cpu", "--out", str(folder / "run"), *SMALL]) == 0
    assert main(["export", str(folder / "run"), "--out", str(folder / "bundle")]) == 0
    return folder / "bundle"


def test_the_contract_names_it_and_it_needs_no_trust(bundle, monkeypatch):
    monkeypatch.setattr(trusting, "_trusted", set())
    contract = Contract.load(bundle)
    assert contract.suite == "gaitway_reach.suite:SUITE" and contract.operator == "numbers" and contract.fixed_base
    assert contract.command_names == ("x", "y", "z", "roll", "pitch", "yaw")
    assert contract.command_units == ("m", "m", "m", "rad", "rad", "rad")
    assert suite_of(contract) is SUITE and not trusting.trusted()
    assert contract.action.scale[:7] == (0.5,) * 6 + (1.0,) and contract.action.scale[7:] == (0.0, 0.0)


def test_an_unlearnt_policy_fails(bundle, tmp_path):
    short = [replace(scenario, envs=4) for scenario in SCENARIOS[:1]]
    verdict = validate_bundle(bundle, scenarios=short, processes=1)
    assert not verdict.passed
    missed = {check.metric.name: check.value for check in verdict.scenarios[0].checks if not check.passed}
    assert missed["reached"] == 0.0 and missed["steady_position"] > 0.02
    again = [name for name in ("falls", "joint_limit_use") if name in missed]
    assert not again


def test_poses_are_told_anew_every_period():
    contract = contract_before_training(TASK)
    drawn = SUITE.draw(SCENARIOS[0], contract, 0).command
    steps = round(PERIOD / contract.control_dt)
    assert drawn.shape == (2 * steps, 64, 6)
    assert (drawn[:steps] == drawn[0]).all() and (drawn[steps:] == drawn[steps]).all()
    low, high = np.array(contract.command_ranges).T
    assert (drawn >= low).all() and (drawn <= high).all() and np.ptp(drawn[0, :, 5]) > 4.0


class Held(nn.Module):
    """Actions by the nearest pose of a table, plus a fault."""

    def __init__(self, fault):
        super().__init__()
        _, seen, actions = poses_held(TASK)
        self.told, self.actions, self.fault, self.steps = seen[:, -7:], actions, fault, 0

    def forward(self, observation):
        self.steps += 1
        nearest = torch.cdist(observation[:, 18:25], self.told).argmin(1)
        return self.fault(self.actions[nearest], self.steps)


@pytest.mark.slow
def test_planted_faults_fail_it():
    """A hand that is turned off or late, an arm that trembles: each is told by the metric for it."""
    few = tuple(replace(scenario, envs=4) for scenario in SCENARIOS[:1])
    tremble = Examiner(TASK, scenarios=few)(Held(lambda action, step: action + 0.3 * (-1.0) ** step))
    missed = {row.check.metric.name for row in tremble.checks if not row.check.passed}
    assert {"rest_speed", "torque_change"} <= missed
    turned = Examiner(TASK, scenarios=few)(Held(lambda action, step: action + torch.eye(7)[6] * 0.5))
    missed = {row.check.metric.name for row in turned.checks if not row.check.passed}
    assert {"reached", "steady_orientation"} <= missed


def test_dry_friction_is_of_the_arm_s_joints(bundle):
    contract = Contract.load(bundle)
    plants = Plants(contract, bundle / "robot.xml", bundle / "robot.xml")
    from gaitway_sim2real.mujoco.robots import RobotBatch

    world = RobotBatch(plants.get(), contract, 5, 1)
    JointFriction(2.0).start(world, np.random.default_rng(0))
    friction = world.batch.expand("dof_frictionloss")[:, world.plant.joint_dof]
    assert (friction[:, 7:] == 0.0).all() and np.ptp(friction[:, :7], axis=0).min() > 0.2
    assert friction.min() >= 0.0 and friction.max() <= 2.0


def test_noise_of_encoders(bundle):
    signals = {"joint_pos": np.zeros((100, 9)), "joint_vel": np.zeros((100, 9)), "command": np.ones((100, 6))}
    noisy = EncoderNoise(0.01, 0.1).sensed(signals, np.random.default_rng(0))
    assert 0.009 < np.abs(noisy["joint_pos"]).max() <= 0.01 and 0.09 < np.abs(noisy["joint_vel"]).max() <= 0.1
    assert noisy["command"] is signals["command"]


def test_sensor_noise_suits_a_robot_without_an_imu(bundle):
    contract = Contract.load(bundle)
    plants = Plants(contract, bundle / "robot.xml", bundle / "robot.xml")
    scenario = replace(SCENARIOS[0], envs=2, seconds=0.5, stressors=(SensorNoise(),))
    rec = run_scenario(SUITE, bundle, contract, plants, scenario, 0)
    assert rec.alive.all() and np.isfinite(rec.target).all() and np.ptp(rec.target[:, 0], axis=0)[:7].min() > 0.0
