"""A first guess of an arm: angles by inverse kinematics, and targets that hold them against gravity in MuJoCo."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_tasks.math import quat_error_magnitude, quat_from_euler_xyz
from gaitway_tasks.mdp import observations
from gaitway_tasks.reach import poses
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import FRANKA, GO2
from gaitway_tasks.robots.arms import loads
from gaitway_tasks.velocity import velocity_flat

TASK = get_task("reach-franka", "cpu")


@pytest.fixture(scope="module")
def guess(monkeypatch_module):
    """The guess in still states: with the arm where it is to be."""
    monkeypatch_module.setattr(poses, "OFF", 0.0)
    monkeypatch_module.setattr(poses, "MOVES", 0.0)
    monkeypatch_module.setattr(poses, "POSES", 64)
    monkeypatch_module.setattr(poses, "COPIES", 1)
    return poses.poses_held(TASK)


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def test_the_hand_is_at_its_pose(guess):
    columns, seen, _ = guess
    assert columns == tuple(range(25)) and seen.shape == (64, 25)
    model = mujoco.MjModel.from_xml_path(str(FRANKA.mjcf))
    data = mujoco.MjData(model)
    for row in seen:
        data.qpos[:] = row[:9].numpy() + np.array(TASK.robot.default_joint_pos)
        mujoco.mj_kinematics(model, data)
        hand = data.body("panda_hand")
        np.testing.assert_allclose(hand.xpos, row[18:21].numpy() / 5.0, atol=5e-3)  # the term's scale
        quat = torch.tensor(hand.xquat)[None].float()
        assert float(quat_error_magnitude(quat, row[None, 21:25])) < 0.02


def test_its_targets_hold_the_arm_against_gravity(guess):
    _, seen, actions = guess
    angles = seen[:, :9].double().numpy() + np.array(TASK.robot.default_joint_pos)
    target = TASK.actions.targets(TASK.robot, torch.device("cpu"))(actions).numpy()
    stiffness = np.array([law.stiffness for law in TASK.robot.joint_actuators])
    model = mujoco.MjModel.from_xml_path(str(FRANKA.mjcf))
    model.body_mass[model.body("panda_hand").id] *= np.sqrt(1.8)  # the mean of the loads in training
    data = mujoco.MjData(model)
    for row in range(5):
        data.qpos[:] = angles[row]
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose((stiffness * (target[row] - angles[row]))[:7], data.qfrc_bias[:7], atol=2e-3)
    assert np.abs(stiffness * (target - angles))[:, 1].max() > 5.0


def test_near_poses_have_near_actions(guess):
    _, seen, actions = guess
    near = torch.cdist(seen[:, 18:], seen[:, 18:]) + 1e9 * torch.eye(64)
    distance, other = near.min(1)
    change = (actions - actions[other]).norm(dim=1)
    assert (change < 6.0 * distance + 0.1).all()


def test_states_off_the_pose_are_brought_back():
    torch.manual_seed(0)
    _, seen, actions = poses.poses_held(TASK)
    assert len(seen) == len(actions) == poses.POSES * poses.COPIES
    target = TASK.actions.targets(TASK.robot, torch.device("cpu"))(actions)
    angles = seen[:, :9] + torch.tensor(TASK.robot.default_joint_pos)
    still = seen[:, 9:18].norm(dim=1) < 1.0
    assert still.any() and target.isfinite().all() and (angles - target).abs().median() < 0.5


def test_inertia_is_that_of_all_that_a_joint_moves():
    _, inertia = loads(FRANKA.mjcf, FRANKA.joint_names, np.array([FRANKA.default_joint_pos]))
    assert inertia[0, 1] > 1.0 > inertia[0, 4] > inertia[0, 6] > 0.1  # the rotor's alone is 0.1


def test_a_task_that_tells_no_pose_is_refused():
    group = TASK.observations["policy"]
    few = {name: term for name, term in group.terms.items() if term.func is not observations.joint_vel_rel}
    with pytest.raises(UserError, match="reach-franka has no joint_vel_rel among the observations"):
        poses.poses_held(TASK.replace(observations={"policy": replace(group, terms=few)}))
    with pytest.raises(UserError, match="observes a history"):
        poses.poses_held(TASK.replace(observations={"policy": replace(group, history_length=2)}))
    with pytest.raises(UserError, match="has no pose_command"):
        poses.poses_held(velocity_flat(GO2))


def test_yaw_of_the_preset_needs_no_more_than_the_last_joint_has(guess):
    _, seen, _ = guess
    angles = seen[:, :9] + torch.tensor(TASK.robot.default_joint_pos)
    low, high = torch.tensor(FRANKA.joint_limits).T
    assert (angles >= low).all() and (angles <= high).all()
    assert quat_from_euler_xyz(*torch.zeros(3, 1)).tolist() == [[1.0, 0.0, 0.0, 0.0]]
