"""A bundle in Isaac Lab: played by its graph, with the joints by name, and one fallen robot put back among others."""

from pathlib import Path

import numpy as np
import pytest
from gaitway_isaaclab import launch

import gaitway
from gaitway.backends.isaaclab_bundle import BundleRobots
from gaitway.cli import main

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
    start = robots.signals()
    default = np.array(robots.contract.default_joint_pos)
    np.testing.assert_allclose(start["joint_pos"], np.tile(default, (3, 1)), atol=1e-5)
    assert not robots.fallen(start).any()
    target = np.tile(default, (3, 1))
    knees = [name.endswith("KFE") for name in robots.contract.joint_names]
    target[1, knees] *= 3.4  # it folds its legs
    for _ in range(30):
        robots.step(target)
        robots.policy(robots_input(robots))
    before = robots.signals()
    assert robots.fallen(before).tolist() == [False, True, False]
    assert robots.policy.state.any(1).all()
    robots.place(np.array([1]))
    after = robots.signals()
    np.testing.assert_allclose(after["base_pos"][1], [0.0, 0.0, robots.contract.init_height], atol=1e-5)
    np.testing.assert_allclose(after["imu_quat_wxyz"][1], start["imu_quat_wxyz"][1], atol=1e-5)
    np.testing.assert_allclose(after["joint_pos"][1], default, atol=1e-5)
    for name, value in after.items():
        np.testing.assert_allclose(value[[0, 2]], before[name][[0, 2]], atol=1e-4, err_msg=name)
    assert robots.policy.state.any(1).tolist() == [True, False, True]


def robots_input(robots):
    signals = robots.signals()
    return {name: signals[name] for name in signals if name not in ("base_pos", "lin_vel")} | {
        "command": np.zeros((robots.count, 3))
    }
