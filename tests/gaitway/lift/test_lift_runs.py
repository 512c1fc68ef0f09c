"""An arm that lifts a cube, from training to the wire."""

import gymnasium
import numpy as np
import pytest
from gaitway_files.hardware import Hardware
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.safety.preflight import DeployError, check_bundle
from gaitway_sim2real.lockstep.robot import LockstepRobot

from gaitway.cli import main
from gaitway.train_config import ConfigError, resolve

SMALL = ["num_envs=4", "agent.num_steps=8", "total_steps=64", "agent.optimizer.minibatches=1", "num_threads=1",
         "evaluation_episodes=2", "task.timing.episode_length_s=0.4", "agent.first_guess=false",
         "agent.model.actor_hidden=[16]", "agent.model.critic_hidden=[16]"]  # fmt: skip


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A policy of two updates, which lifts nothing."""
    folder = tmp_path_factory.mktemp("lift")
    assert main(["train", "lift-franka", "--preset", "cpu", "--out", str(folder / "run"), *SMALL]) == 0
    assert main(["export", str(folder / "run"), "--out", str(folder / "bundle")]) == 0
    return folder / "bundle"


def test_gymnasium_makes_it():
    env = gymnasium.make_vec("Gaitway/Lift-Franka-v0", num_envs=2)
    observation, _ = env.reset(seed=0)
    assert observation["policy"].shape == (2, 36) and env.single_action_space.shape == (8,)


def test_a_history_has_no_first_guess():
    with pytest.raises(ConfigError, match=r"agent\.first_guess: the policy of lift-franka observes a history"):
        resolve("lift-franka", preset="cpu", overrides=["task.observations.policy.history_length=2"])


@pytest.mark.slow
def test_a_bundle_brings_the_cube_along(bundle, capsys):
    contract = Contract.load(bundle)
    assert contract.input_names == ("joint_pos", "joint_vel", "command", "object_pos", "state")
    assert contract.conventions["object_pos"] == "middle of the object, base frame; an estimate"
    robot = LockstepRobot(bundle)
    np.testing.assert_allclose(robot.read().object_pos, (0.5, 0.0, 0.055), atol=1e-9)
    assert main(["run", str(bundle), "--seconds", "1"]) == 0
    assert "reads where the object beside it is, which takes a camera" in capsys.readouterr().out


@pytest.mark.slow
def test_a_robot_without_a_camera_is_refused(bundle):
    """By the check that ``gaitway deploy`` makes before it connects, to a robot or to its twin."""
    contract = Contract.load(bundle)
    with pytest.raises(DeployError, match=r"reads where the object is \(object_pos\).*use gaitway run"):
        check_bundle(bundle, hardware_like(contract), i_know=True)


def hardware_like(contract):
    """A robot with just the joints, limits and gains of ``contract``."""

    def each(value):
        return dict.fromkeys(contract.joint_names, value)

    return Hardware(
        name="arm", robot=contract.robot, family="ros2", motors=contract.joint_names, effort_limit=each(300.0),
        velocity_limit=each(3.0), max_stiffness=each(5000.0), max_damping=each(500.0), damping=each(1.0),
    )  # fmt: skip
