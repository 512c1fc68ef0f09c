"""Objects that a hand lifts: what a policy sees of them, events, terminations, and rewards, ``(N,)``, unweighted.

Formulas are Isaac Lab 2.3.2's (``isaaclab_tasks/manager_based/manipulation/lift/mdp``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ..math import quat_apply, quat_conjugate, quat_from_euler_xyz, quat_mul
from ..passes import once
from ..signals import reads
from ..world import EditableWorld, World
from . import indices
from .events import Range, _uniform, _uniform_axes
from .pose import _measured_pose

TIP = 0.1034
"""Distance from the frame of a Panda's hand to the middle between its fingertips, along z [m]: Isaac Lab's
``ee_frame``."""
DOWN = (0.0, math.pi, -math.pi)
"""Roll, pitch and yaw of a hand that points down, its fingers along y of the base [rad]."""


@reads("object_pos")
def object_position_in_robot_root_frame(world: World, name: str = "object") -> Tensor:
    """Middle of an object in the base's frame [m], (N, 3)."""
    return world.object_pos(name)


@reads("object_pos", "command")
def object_position_error(world: World, command_name: str, name: str = "object") -> Tensor:
    """Way from an object to its goal, in the base's frame [m], (N, 3)."""
    return world.command(command_name)[:, :3] - world.object_pos(name)


@reads("object_pos", "joint_pos")
def measured_object_distance(world: World, body: str, tip: float = TIP, name: str = "object") -> Tensor:
    """Way from between the fingertips, by the encoders, to an object, in the base's frame [m], (N, 3).

    ``tip`` is their distance from the frame of the hand ``body`` along its z axis [m].
    """
    place, quat = _measured_pose(world, body)
    return world.object_pos(name) - place - quat_apply(quat, _along_z(tip, place))


@reads("joint_pos")
def measured_tilt(world: World, body: str, told: tuple[float, float, float] = DOWN) -> Tensor:
    """Rotation from how the encoders say that ``body`` is turned to ``told`` in roll, pitch and yaw [rad], (N, 4).

    w, x, y, z, in the base's frame.
    """
    quat = _measured_pose(world, body)[1]
    wanted = quat_from_euler_xyz(*indices.row(told, quat.device)).expand(quat.shape)
    return quat_mul(wanted, quat_conjugate(quat))


@reads("body_pos_w", "body_quat_wxyz")
def object_ee_distance(world: World, std: float, body: str, tip: float = TIP, name: str = "object") -> Tensor:
    """1 - tanh(d / std) of the distance d of an object from between the fingertips [m]."""
    hand, robot = world.spec.body_ids(body)[0], world.robot
    place = robot.body_pos_w[:, hand]
    place = place + quat_apply(robot.body_quat_wxyz[:, hand], _along_z(tip, place))
    return 1.0 - torch.tanh(torch.linalg.vector_norm(world.objects[name].root_pos_w - place, dim=1) / std)


def object_is_lifted(world: World, minimal_height: float, name: str = "object") -> Tensor:
    """1 for an object whose middle is above ``minimal_height`` [m]."""
    return (world.objects[name].root_pos_w[:, 2] > minimal_height).float()


def object_goal_distance(
    world: World, std: float, minimal_height: float, command_name: str, name: str = "object"
) -> Tensor:
    """1 - tanh(d / std) of the distance d of an object from its goal [m], 0 if it is not lifted."""
    return object_is_lifted(world, minimal_height, name) * (
        1.0 - torch.tanh(goal_distance(world, command_name, name) / std)
    )


@once
def goal_distance(world: World, command_name: str, name: str = "object") -> Tensor:
    """Distance of an object from its goal [m], (N,)."""
    robot = world.robot
    goal = robot.root_pos_w + quat_apply(robot.root_quat_wxyz, world.command(command_name)[:, :3])
    return torch.linalg.vector_norm(goal - world.objects[name].root_pos_w, dim=1)


def object_height_below_minimum(world: World, minimum_height: float, name: str = "object") -> Tensor:
    """The middle of an object is below ``minimum_height`` [m]: it has fallen off. Isaac Lab's
    ``root_height_below_minimum``."""
    return world.objects[name].root_pos_w[:, 2] < minimum_height


def reset_object_state_uniform(
    world: EditableWorld,
    env_ids: Tensor,
    pose_range: Mapping[str, Range],
    velocity_range: Mapping[str, Range],
    asset: str = "object",
) -> None:
    """Object at its place plus a random way [m], at rest or with random velocities.

    Isaac Lab's ``reset_root_state_uniform`` of an object; it is not turned.
    """
    way = _uniform_axes(world, pose_range, ("x", "y", "z"), len(env_ids))
    vel = _uniform_axes(world, velocity_range, ("x", "y", "z", "roll", "pitch", "yaw"), len(env_ids))
    place = world.objects[asset].default_pos
    quat = indices.row((1.0, 0.0, 0.0, 0.0), world.device).expand(len(env_ids), 4)
    world.write_object_state(env_ids, asset, place + way, quat, vel[:, :3], vel[:, 3:])


def scale_object_mass(world: EditableWorld, env_ids: Tensor, scale_range: Range, asset: str = "object") -> None:
    """Factor on the mass of an object, uniform in its logarithm; its inertia follows."""
    low, high = (math.log(limit) for limit in scale_range)
    world.set_object_mass_scale(env_ids, asset, _uniform(world, (low, high), len(env_ids)).exp())


def _along_z(length: float, like: Tensor) -> Tensor:
    return indices.row((0.0, 0.0, length), like.device).expand(like.shape)
