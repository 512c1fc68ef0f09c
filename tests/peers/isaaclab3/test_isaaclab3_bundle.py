"""Bundles and runs in Isaac Lab by the command line: played, and recorded for ``gaitway diagnose``."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from gaitway_isaaclab import launch
from gaitway_isaaclab.recorder import RolloutRecorder
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.rotation import quat_apply
from gaitway_sim2real.diagnose.actions import check_policy
from gaitway_sim2real.diagnose.terms import expected_terms
from gaitway_sim2real.diagnose.view import view_of
from gaitway_tasks.recording import Recording

import gaitway
from gaitway.backends.isaaclab_bundle import BundleRobots
from gaitway.cli import main
from gaitway.runs.folder import RunFolder
from gaitway.training.load import load_actor

BUNDLE = Path(gaitway.__file__).parent / "demo" / "bundles" / "anymal-c"


@pytest.fixture
def closing(lab):
    yield
    launch.close()


@pytest.mark.quick
def test_a_bundle_walks_as_it_is_told(closing, physics, capsys):
    """As a stranger runs it: the policy learnt in MuJoCo."""
    seconds, robots = (6, 4) if physics == "physx" else (2, 2)
    words = ["--world", "isaaclab", "--physics", physics, "--seconds", str(seconds), "--envs", str(robots)]
    assert main(["play", str(BUNDLE), *words]) == 0
    said = capsys.readouterr().out
    assert "velocity-flat-anymal-c-blind" in said and "Isaac Lab 3.0" in said
    (everybody,) = [line.split() for line in said.splitlines() if line.startswith("all: ")]
    linear, yaw, falls = float(everybody[3]), float(everybody[6]), int(everybody[-1])
    assert falls == 0 and linear < 0.3 and yaw < 0.3  # the first second, from standing, is in it


def test_only_the_robot_that_fell_is_put_back(closing, physics):
    robots = BundleRobots(BUNDLE, 3, physics=physics)
    start = robots.walk.state()
    default = np.array(robots.contract.default_joint_pos)
    np.testing.assert_allclose(start["joint_pos"], np.tile(default, (3, 1)), atol=1e-5)
    assert not robots.fallen().any()
    target = np.tile(default, (3, 1))
    knees = [name.endswith("KFE") for name in robots.contract.joint_names]
    target[1, knees] *= 3.4  # it folds its legs
    for _ in range(30):
        robots.step(target)
        robots.policy({**robots.signals(), "command": np.zeros((3, 3))})
    before = robots.walk.state()
    assert robots.fallen().tolist() == [False, True, False]
    assert robots.policy.state.any(1).all()
    robots.place(np.array([1]))
    after = robots.walk.state()
    np.testing.assert_allclose(after["base_pos"][1], [0.0, 0.0, robots.contract.init_height], atol=1e-5)
    np.testing.assert_allclose(after["base_quat"][1], start["base_quat"][1], atol=1e-5)
    np.testing.assert_allclose(after["joint_pos"][1], default, atol=1e-5)
    for name, value in after.items():
        np.testing.assert_allclose(value[[0, 2]], before[name][[0, 2]], atol=1e-4, err_msg=name)
    assert robots.policy.state.any(1).tolist() == [True, False, True]


def test_a_bundle_recorded_here_is_diagnosed_elsewhere(closing, physics, tmp_path, capsys):
    """The policy's own check needs no simulator: targets and actions must be those of the graph."""
    path, steps = tmp_path / "rollout.npz", 100
    words = ["--world", "isaaclab", "--physics", physics, "--seconds", "2", "--envs", "2"]
    assert main(["record", str(BUNDLE), "--out", str(path), *words]) == 0
    assert f"{steps} steps of 2 robots in Isaac Lab 3.0" in capsys.readouterr().out
    found = Recording.load(path)
    assert (found.steps, found.num_envs, found.quat_order, found.torques_held) == (steps, 2, "wxyz", True)
    assert found.flat_ground and not found.observation_noise and not found.done.any()
    contract = Contract.load(BUNDLE)
    view = view_of(found, contract)
    note, wrong = check_policy(view, expected_terms(view, BUNDLE), BUNDLE)
    assert "the graph gives the recorded actions" in note and not wrong
    # The row is one moment: the velocity is the change of the position until the next, over the base's own axes.
    move = np.diff(found.root_pos_w, axis=0) / contract.control_dt
    told = quat_apply(found.root_quat, found.root_lin_vel)
    np.testing.assert_allclose(move[10:, :, :2], (0.5 * (told[1:] + told[:-1]))[10:, :, :2], atol=0.1)
    assert np.abs(found.applied_torque[1:]).max() > 1.0


def test_a_run_recorded_here_equals_the_recorders_own_file(closing, physics, tmp_path):
    """One seed, one policy: by our command, and by the wrapper around Isaac Lab's environment in a script."""
    if physics == "newton":
        pytest.skip("the same code; compiling its kernels takes minutes")
    run, path = tmp_path / "run", tmp_path / "rollout.npz"
    settings = ["num_envs=4", "agent.num_steps=4", "total_steps=16", "device=cpu", "agent.optimizer.epochs=1"]
    words = ["--world", "isaaclab", "--physics", physics, "--quiet", "--out", str(run)]
    assert main(["train", "velocity-flat-anymal-c-blind", *words, *settings]) == 0
    launch.close()
    assert main(["record", str(run), "--out", str(path), "--world", "isaaclab", "--seconds", "1", "--envs", "3"]) == 0
    launch.close()
    by_command = Recording.load(path)
    assert (by_command.steps, by_command.num_envs, by_command.quat_order) == (50, 3, "xyzw")
    assert by_command.observation_noise and "OvPhysx" in by_command.simulator

    from gaitway_isaaclab import env_cfg
    from gaitway_isaaclab.compat import do_without_gpu
    from isaaclab.app import launch_simulation
    from isaaclab.envs import ManagerBasedRLEnv

    config, actor, _ = load_actor(RunFolder.open(run))
    cfg = env_cfg(config.robot_task, 3, "cpu", 0, physics, asset="mjcf", actuators="task")
    do_without_gpu(cfg.sim)
    with launch_simulation(cfg, {"device": "cpu"}):
        env = RolloutRecorder(ManagerBasedRLEnv(cfg), tmp_path / "script", steps=50)
        observation, _ = env.reset(seed=0)
        with torch.no_grad():
            for _ in range(50):
                observation, *_ = env.step(actor(observation["policy"]))
        env.close()
    by_script = Recording.load(tmp_path / "script.npz")
    for field in dataclasses.fields(Recording):
        one, other = getattr(by_command, field.name), getattr(by_script, field.name)
        assert (one is None) == (other is None), field.name
        if one is not None:
            np.testing.assert_array_equal(one, other, err_msg=field.name)
