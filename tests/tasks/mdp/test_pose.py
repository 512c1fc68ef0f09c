"""Poses of a hand: by rotation matrices in double precision, and by MuJoCo's kinematics."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_mujoco import make_env
from gaitway_tasks.mdp import pose
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import FRANKA, GO2
from gaitway_tasks.robots.arms import chain
from gaitway_tasks.robots.mjcf import ModelError
from tensor_world import TensorWorld, close, rotation_matrix

N, CMD, HAND = 128, "ee_pose", "panda_hand"
AT = FRANKA.body_names.index(HAND)


def about(axis: int, angle: torch.Tensor) -> torch.Tensor:
    """Rotation matrices (N, 3, 3)."""
    i, j = [k for k in range(3) if k != axis]
    matrix = torch.eye(3, dtype=torch.float64).repeat(len(angle), 1, 1)
    sign = -1.0 if axis == 1 else 1.0
    matrix[:, i, i] = matrix[:, j, j] = angle.cos()
    matrix[:, i, j], matrix[:, j, i] = -sign * angle.sin(), sign * angle.sin()
    return matrix


@pytest.fixture
def world():
    """A base that is turned and elsewhere, hands and commands anywhere."""
    world, random = TensorWorld(FRANKA, N).randomize(0), torch.Generator().manual_seed(1)
    quat = torch.randn(N, len(FRANKA.body_names), 4, generator=random)
    world.robot.body_quat_wxyz = torch.nn.functional.normalize(quat, dim=-1)
    told = torch.rand(N, 6, generator=random) * 2.0 - 1.0
    world.commands[CMD] = told * torch.tensor([1.0, 1.0, 1.0, math.pi, math.pi, math.pi])
    return world


def told_matrix(world):
    roll, pitch, yaw = world.commands[CMD][:, 3:].double().unbind(1)
    return about(2, yaw) @ about(1, pitch) @ about(0, roll)


def test_the_pose_that_a_policy_sees(world):
    seen = pose.pose_command(world, CMD)
    assert seen.shape == (N, 7) and torch.equal(seen[:, :3], world.commands[CMD][:, :3])
    close(rotation_matrix(seen[:, 3:]), told_matrix(world), 1e-6)


def test_position_error_is_in_the_base_s_frame(world):
    robot, told = world.robot, world.commands[CMD]
    place = robot.root_pos_w.double() + (rotation_matrix(robot.root_quat_wxyz) @ told[:, :3, None].double())[..., 0]
    expected = (robot.body_pos_w[:, AT].double() - place).norm(dim=1)
    close(pose.position_command_error(world, CMD, HAND), expected.float(), 1e-5)
    close(pose.position_command_error_tanh(world, 0.1, CMD, HAND), 1.0 - torch.tanh(expected / 0.1).float(), 1e-5)


def test_orientation_error_is_the_angle_of_the_shortest_turn(world):
    robot = world.robot
    wanted = rotation_matrix(robot.root_quat_wxyz) @ told_matrix(world)
    between = wanted.mT @ rotation_matrix(robot.body_quat_wxyz[:, AT])
    expected = torch.arccos(((between.diagonal(dim1=1, dim2=2).sum(1) - 1.0) / 2.0).clamp(-1.0, 1.0))
    assert expected.max() > 3.0 and expected.min() < 1.0
    close(pose.orientation_command_error(world, CMD, HAND), expected.float(), 1e-4)
    robot.body_quat_wxyz = -robot.body_quat_wxyz  # the same orientations
    close(pose.orientation_command_error(world, CMD, HAND), expected.float(), 1e-4)
    fine = pose.orientation_command_error_tanh(world, 0.5, CMD, HAND)
    close(fine, 1.0 - torch.tanh(expected / 0.5).float(), 1e-4)


@pytest.fixture(scope="module")
def env():
    task = get_task("reach-franka", "cpu")
    kept = {"reset_robot_joints": task.events["reset_robot_joints"]}
    return make_env(task.replace(events=kept), 16, num_threads=1)


def test_the_measured_pose_is_mujoco_s(env):
    env.reset(seed=0)
    for _ in range(20):
        env.step(2.0 * torch.randn(16, 7))
    world = env.world
    world.batch.forward()
    hand = world.model.body(HAND).id
    place, quat = (torch.tensor(world.batch.bind(name)[:, hand]).double() for name in ("xpos", "xquat"))
    assert place.std(0).min() > 0.02
    told = world.command(CMD)
    close(told[:, :3] - pose.measured_position_error(world, CMD, HAND), place.float(), 1e-6)
    turn = rotation_matrix(pose.measured_orientation_error(world, CMD, HAND))
    close(turn @ rotation_matrix(quat), rotation_matrix(pose.pose_command(world, CMD)[:, 3:]), 1e-5)


def test_the_measured_turn_tells_how_far_a_joint_is_wound_up():
    """A whole turn of the last joint is the same pose of the hand, and its quaternion has the other sign."""
    world = TensorWorld(FRANKA, 2)
    world.commands[CMD] = torch.tensor([[0.5, 0.0, 0.3, 0.0, math.pi, 0.5]]).repeat(2, 1)
    world.robot.joint_pos[1, 6] -= 2.0 * math.pi
    one, other = pose.measured_orientation_error(world, CMD, HAND)
    close(one, -other, 1e-5)


def test_a_chain_that_slides_is_refused():
    joints, base = FRANKA.joint_names, FRANKA.base_name
    assert [link.joint for link in chain(FRANKA.mjcf, joints, base, HAND)] == [*range(7), 0]
    with pytest.raises(ModelError, match=r"'panda_finger_joint1' is on the way to panda_leftfinger, and no hinge"):
        chain(FRANKA.mjcf, joints, base, "panda_leftfinger")
    with pytest.raises(ModelError, match=r"panda_link0 does not hang from panda_hand"):
        chain(FRANKA.mjcf, joints, HAND, "panda_link0")
    assert len(chain(GO2.mjcf, GO2.joint_names, GO2.base_name, "FL_foot")) == 4


def test_commands_of_training_ramp_from_rest_as_an_exported_policy_s(env):
    command, dt = env.task.commands[CMD], env.world.step_dt
    env.reset(seed=3)
    sampler = env.managers.commands[CMD]
    most, rest = dt * torch.tensor(command.acceleration), torch.tensor(command.rest)
    before = sampler.command.clone()
    assert torch.equal(before, rest.expand(16, 6))
    for _ in range(130):
        env.step(torch.zeros(16, 7))
        now = sampler.command.clone()
        assert ((now - before).abs() <= most + 1e-5).all()
        before = now
    assert ((before - rest).abs() > 10.0 * most).any(0)[[0, 1, 2, 5]].all()
    low, high = torch.tensor(list(command.ranges().values())).T
    assert (sampler.asked >= low - 1e-5).all() and (sampler.asked <= high + 1e-5).all()


def test_isaac_lab_s_commands_jump():
    env = make_env(get_task("reach-franka"), 64, num_threads=1)
    env.reset(seed=0)
    first = env.world.command(CMD).clone()
    for _ in range(121):
        env.step(torch.zeros(64, 7))
    change = env.world.command(CMD) - first
    assert (change[:, :3].norm(dim=1) > 0.05).float().mean() > 0.8
    assert torch.equal(change[:, 3:5], torch.zeros(64, 2))


def test_errors_are_those_of_evaluations(world):
    command = get_task("reach-franka").commands[CMD]
    found = command.errors(world.commands[CMD], world.robot)
    assert torch.equal(found["position"], pose.position_command_error(world, CMD, HAND))
    assert torch.equal(found["orientation"], pose.orientation_command_error(world, CMD, HAND))


def test_rewards_cost_more_later():
    """Isaac Lab's curriculum; a checkpoint restores the weight."""
    task = get_task("reach-franka")
    soon = replace(task.curriculum["joint_vel"], params={**task.curriculum["joint_vel"].params, "num_steps": 8})
    short = replace(task.timing, episode_length_s=4 * task.timing.step_dt)
    task = task.replace(curriculum={"joint_vel": soon}, timing=short)
    env = make_env(task, 2, num_threads=1)
    env.reset(seed=0)
    told = []
    for _ in range(13):
        log = env.step(torch.zeros(2, 7))[4].get("log", {})
        told += [float(log["curriculum/joint_vel"])] if log else []
    assert told == pytest.approx([-0.0001, -0.0001, -0.001])
    again = make_env(task, 2, num_threads=1)
    again.reset(seed=1)
    again.load_state_dict(env.state_dict())
    for world in (env.world, again.world):
        assert float(world.reward_weights["joint_vel"]) == pytest.approx(-0.001 * world.step_dt)
    with pytest.raises(UserError, match=r"no reward 'joint_velocity' with a weight; .*joint_vel"):
        wrong = replace(soon, params={**soon.params, "term_name": "joint_velocity"})
        make_env(task.replace(curriculum={"joint_vel": wrong}), 1, num_threads=1)


def test_speed_beyond_a_limit(world):
    world.robot.joint_vel = torch.zeros(N, 9)
    world.robot.joint_vel[0, :3] = torch.tensor([2.0, -3.0, 1.0])
    world.robot.joint_vel[1, 8] = 5.0  # a finger
    found = pose.joint_speed_excess(world, 1.5, "panda_joint.*")
    assert found[:2].tolist() == [2.0, 0.0] and not found[2:].any()


def test_joints_that_do_not_act_hold_their_offset():
    task = get_task("reach-franka")
    targets = task.actions.targets(FRANKA, torch.device("cpu"))
    action = torch.arange(1.0, 8.0)[None]
    expected = np.array(FRANKA.default_joint_pos)
    expected[:7] += 0.5 * np.arange(1.0, 8.0)
    np.testing.assert_allclose(targets(action)[0], expected, rtol=1e-6)
    assert task.actions.scales(FRANKA) == (0.5,) * 7 + (0.0, 0.0) and task.actions.num(FRANKA) == 7
    few = replace(task.actions, joint_names=("panda_joint7", "panda_joint2"))
    assert few.acting(FRANKA) == (1, 6)
