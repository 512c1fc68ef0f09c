"""Terms of motion tracking: BeyondMimic's (Liao et al. 2025, arXiv 2508.08241), with its names, and their events.

``command_name`` names a :class:`.command.MotionCommand`. The anchor is the base. Body targets are the reference's,
moved to the robot's place and heading, at the reference's height.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from gaitway_tasks.math import (
    projected_gravity,
    quat_apply,
    quat_apply_inverse,
    quat_conjugate,
    quat_error_magnitude,
    quat_from_yaw,
    quat_mul,
    yaw_of,
)
from gaitway_tasks.mdp import indices
from gaitway_tasks.passes import once
from gaitway_tasks.signals import reads
from gaitway_tasks.world import EditableWorld, World
from torch import Tensor

from .command import MotionCommand, bodies_in_world, sampler_of
from .reference import Reference, reference

Range = tuple[float, float]
BODIES = "body_pos_w", "body_quat_wxyz"


def _motion(world: World, command_name: str) -> tuple[Reference, Tensor]:
    """The reference, and the row of each robot, (N,)."""
    command = world.command_of(command_name)
    assert isinstance(command, MotionCommand)
    return command.reference(world), world.command(command_name)[:, 0].round().long()


class Targets(NamedTuple):
    """Bodies of the reference, (N, B, ...): in the world, and moved to the robot."""

    pos_w: Tensor
    quat_wxyz: Tensor
    lin_vel_w: Tensor
    ang_vel_w: Tensor
    relative_pos_w: Tensor
    relative_quat_wxyz: Tensor


@once
def targets(world: World, command_name: str) -> Targets:
    """Targets of all bodies."""
    motion, row = _motion(world, command_name)
    command, robot = world.command(command_name), world.robot
    pos, quat = bodies_in_world(motion.body_pos[row], motion.body_quat_wxyz[row], command)
    turn = quat_from_yaw(command[:, 3])[:, None].expand(-1, pos.shape[1], -1)
    anchor = torch.cat((robot.root_pos_w[:, :2], pos[:, 0, 2:]), 1)
    heading = yaw_of(quat_mul(robot.root_quat_wxyz, quat_conjugate(quat[:, 0])))
    moved = quat_from_yaw(heading)[:, None].expand_as(quat)
    return Targets(
        pos, quat, quat_apply(turn, motion.body_lin_vel[row]), quat_apply(turn, motion.body_ang_vel[row]),
        anchor[:, None] + quat_apply(moved, pos - pos[:, :1]), quat_mul(moved, quat),
    )  # fmt: skip


# ---- observations ----------------------------------------------------------------------------------------------------


@reads("command")
def motion_joints(world: World, command_name: str) -> Tensor:
    """Joint positions from the default pose [rad] and joint velocities [rad/s] of the reference, (N, 2 J)."""
    motion, row = _motion(world, command_name)
    return torch.cat((motion.joint_pos[row] - world.default_joint_pos, motion.joint_vel[row]), 1)


@reads("command")
def motion_gravity(world: World, command_name: str) -> Tensor:
    """Direction of gravity in the reference's base frame, (N, 3)."""
    motion, row = _motion(world, command_name)
    return projected_gravity(motion.body_quat_wxyz[row, 0])


@reads("command")
def motion_base_vel(world: World, command_name: str) -> Tensor:
    """Linear [m/s] and angular velocity [rad/s] of the reference's base, in its frame, (N, 6)."""
    motion, row = _motion(world, command_name)
    quat = motion.body_quat_wxyz[row, 0]
    linear, angular = motion.root_lin_vel[row], motion.body_ang_vel[row, 0]
    return torch.cat((quat_apply_inverse(quat, linear), quat_apply_inverse(quat, angular)), 1)


@reads("command", "root_pos_w", "body_pos_w")
def motion_anchor_pos_b(world: World, command_name: str) -> Tensor:
    """Place of the reference's base in the robot's base frame [m], (N, 3)."""
    robot = world.robot
    return quat_apply_inverse(robot.root_quat_wxyz, targets(world, command_name).pos_w[:, 0] - robot.root_pos_w)


@reads("command", *BODIES)
def motion_anchor_ori_b(world: World, command_name: str) -> Tensor:
    """First two columns of the rotation of the reference's base in the robot's base frame, row by row, (N, 6)."""
    turned = quat_mul(quat_conjugate(world.robot.root_quat_wxyz), targets(world, command_name).quat_wxyz[:, 0])
    x, y = (quat_apply(turned, axis.expand(len(turned), 3)) for axis in torch.eye(3, device=turned.device)[:2])
    return torch.stack((x, y), -1).flatten(1)


@reads(*BODIES, mirror="places")
def robot_body_pos_b(world: World, bodies: str = ".*") -> Tensor:
    """Places of bodies in the base frame [m], (N, 3 n)."""
    robot = world.robot
    pos = robot.body_pos_w.index_select(1, indices.bodies(world, bodies)) - robot.root_pos_w[:, None]
    quat = robot.root_quat_wxyz[:, None].expand(-1, pos.shape[1], -1)
    return quat_apply_inverse(quat, pos).flatten(1)


@reads("command", *BODIES)
def motion_body_pos_error_b(world: World, command_name: str, bodies: str = ".*") -> Tensor:
    """Ways of bodies to their targets, in the base frame [m], (N, 3 n)."""
    chosen = indices.bodies(world, bodies)
    missing = (targets(world, command_name).relative_pos_w - world.robot.body_pos_w).index_select(1, chosen)
    quat = world.robot.root_quat_wxyz[:, None].expand(-1, missing.shape[1], -1)
    return quat_apply_inverse(quat, missing).flatten(1)


# ---- rewards ---------------------------------------------------------------------------------------------------------


@reads(*BODIES)
def motion_global_anchor_position_error_exp(world: World, command_name: str, std: float) -> Tensor:
    """exp(-d^2 / std^2) of the distance d between the bases of reference and robot [m], (N,)."""
    error = (targets(world, command_name).pos_w[:, 0] - world.robot.root_pos_w).square().sum(-1)
    return torch.exp(-error / std**2)


@reads(*BODIES)
def motion_global_anchor_orientation_error_exp(world: World, command_name: str, std: float) -> Tensor:
    """exp(-a^2 / std^2) of the angle a between the bases of reference and robot [rad], (N,)."""
    angle = quat_error_magnitude(targets(world, command_name).quat_wxyz[:, 0], world.robot.root_quat_wxyz)
    return torch.exp(-angle.square() / std**2)


@reads(*BODIES)
def motion_relative_body_position_error_exp(world: World, command_name: str, std: float, bodies: str = ".*") -> Tensor:
    """exp(-m / std^2) of the mean m of squared distances of bodies from their targets [m^2], (N,)."""
    missing = targets(world, command_name).relative_pos_w - world.robot.body_pos_w
    error = missing.square().sum(-1).index_select(1, indices.bodies(world, bodies))
    return torch.exp(-error.mean(-1) / std**2)


@reads(*BODIES)
def motion_relative_body_orientation_error_exp(
    world: World, command_name: str, std: float, bodies: str = ".*"
) -> Tensor:
    """exp(-m / std^2) of the mean m of squared angles of bodies from their targets [rad^2], (N,)."""
    angle = quat_error_magnitude(targets(world, command_name).relative_quat_wxyz, world.robot.body_quat_wxyz)
    return torch.exp(-angle.index_select(1, indices.bodies(world, bodies)).square().mean(-1) / std**2)


@reads("body_lin_vel_w", *BODIES)
def motion_global_body_linear_velocity_error_exp(
    world: World, command_name: str, std: float, bodies: str = ".*"
) -> Tensor:
    """exp(-m / std^2) of the mean m of squared differences of bodies' velocities [m^2/s^2], (N,)."""
    error = (targets(world, command_name).lin_vel_w - world.robot.body_lin_vel_w).square().sum(-1)
    return torch.exp(-error.index_select(1, indices.bodies(world, bodies)).mean(-1) / std**2)


@reads("body_ang_vel_w", *BODIES)
def motion_global_body_angular_velocity_error_exp(
    world: World, command_name: str, std: float, bodies: str = ".*"
) -> Tensor:
    """exp(-m / std^2) of the mean m of squared differences of bodies' angular velocities [rad^2/s^2], (N,)."""
    error = (targets(world, command_name).ang_vel_w - world.robot.body_ang_vel_w).square().sum(-1)
    return torch.exp(-error.index_select(1, indices.bodies(world, bodies)).mean(-1) / std**2)


# ---- terminations ----------------------------------------------------------------------------------------------------


@reads(*BODIES)
def bad_anchor_pos_z_only(world: World, command_name: str, threshold: float) -> Tensor:
    """The base is more than ``threshold`` [m] above or below the reference's."""
    return (targets(world, command_name).pos_w[:, 0, 2] - world.robot.root_pos_w[:, 2]).abs() > threshold


@reads(*BODIES)
def bad_anchor_ori(world: World, command_name: str, threshold: float) -> Tensor:
    """Gravity along the base's z axis differs by more than ``threshold`` from the reference's."""
    wanted = projected_gravity(targets(world, command_name).quat_wxyz[:, 0])
    return (wanted[:, 2] - world.robot.projected_gravity_b[:, 2]).abs() > threshold


@reads(*BODIES)
def bad_motion_body_pos_z_only(world: World, command_name: str, threshold: float, bodies: str) -> Tensor:
    """One of ``bodies`` is more than ``threshold`` [m] above or below its target."""
    missing = targets(world, command_name).relative_pos_w[..., 2] - world.robot.body_pos_w[..., 2]
    return (missing.index_select(1, indices.bodies(world, bodies)).abs() > threshold).any(1)


# ---- events ----------------------------------------------------------------------------------------------------------


def reset_in_motion(
    world: EditableWorld,
    env_ids: Tensor,
    command_name: str,
    pose_range: dict[str, Range],
    velocity_range: dict[str, Range],
    joint_range: Range,
) -> None:
    """Robots at a frame of the motion, with noise: place [m] and rotation [rad], velocities [m/s, rad/s], joints [rad].

    The heading is drawn anew, and the place is that of the ground.
    """
    sampler = sampler_of(world, command_name)
    motion, frame = sampler.reference, sampler.restart(env_ids)
    row, n, device = frame.long(), len(env_ids), world.device

    def drawn(ranges: dict[str, Range]) -> Tensor:
        axes = torch.tensor([ranges.get(axis, (0.0, 0.0)) for axis in ("x", "y", "z", "roll", "pitch", "yaw")])
        low, high = axes.to(device).unbind(1)
        return low + (high - low) * torch.rand(n, 6, generator=world.generator, device=device)

    heading = 2.0 * torch.pi * torch.rand(n, generator=world.generator, device=device)
    place = world.ground.origin(env_ids, torch.zeros(n, 2, device=device))
    sampler.place(env_ids, frame, place, heading)
    command = sampler.command[env_ids]
    pos, quat = bodies_in_world(motion.body_pos[row, :1], motion.body_quat_wxyz[row, :1], command)
    turn = quat_from_yaw(command[:, 3])
    linear, angular = quat_apply(turn, motion.root_lin_vel[row]), quat_apply(turn, motion.body_ang_vel[row, 0])
    off, velocity = drawn(pose_range), drawn(velocity_range)
    roll, pitch, yaw = (angle / 2 for angle in off[:, 3:].unbind(1))
    zero = torch.zeros_like(roll)
    tilt = quat_mul(
        torch.stack((pitch.cos(), zero, pitch.sin(), zero), 1), torch.stack((roll.cos(), roll.sin(), zero, zero), 1)
    )
    rotation = quat_mul(quat_mul(torch.stack((yaw.cos(), zero, zero, yaw.sin()), 1), tilt), quat[:, 0])
    height = torch.cat((torch.zeros_like(place[:, :2]), place[:, 2:]), 1)
    world.write_root_state(
        env_ids, pos[:, 0] + height + off[:, :3], rotation, linear + velocity[:, :3],
        quat_apply_inverse(rotation, angular + velocity[:, 3:]),
    )  # fmt: skip
    low, high = joint_range
    noise = low + (high - low) * torch.rand(n, motion.joint_pos.shape[1], generator=world.generator, device=device)
    limits = world.soft_joint_pos_limits
    joints = (motion.joint_pos[row] + noise).clamp(limits[:, 0], limits[:, 1])
    world.write_joint_state(env_ids, joints, motion.joint_vel[row])


def reset_in_clips(world: EditableWorld, env_ids: Tensor, clips: Sequence[str], share: float) -> None:
    """A ``share`` of the episodes begins in a frame of ``clips``, at its speed, with a heading of its own.

    Reference state initialisation (Peng et al. 2018, arXiv 1804.02717): a policy finds what a motion's states are worth
    before it can reach them. It follows the events that place robots, and leaves the other robots where they are.
    """
    chosen = env_ids[torch.rand(len(env_ids), generator=world.generator, device=world.device) < share]
    count, device = len(chosen), world.device
    if not count:
        return
    motions = [reference(clip, world.spec, world.step_dt, device) for clip in clips]
    which = torch.randint(len(motions), (count,), generator=world.generator, device=device)
    at = torch.rand(count, generator=world.generator, device=device)
    turn = quat_from_yaw(2.0 * torch.pi * torch.rand(count, generator=world.generator, device=device))
    for number, motion in enumerate(motions):
        mine = which == number
        ids, (first, last) = chosen[mine], motion.loop
        row = first + (at[mine] * (last - first)).long()
        pos = world.ground.origin(ids, torch.zeros(len(ids), 2, device=device)).clone()
        pos[:, 2] += motion.body_pos[row, 0, 2]
        quat = quat_mul(turn[mine], motion.body_quat_wxyz[row, 0])
        spin = quat_apply_inverse(motion.body_quat_wxyz[row, 0], motion.body_ang_vel[row, 0])
        world.write_root_state(ids, pos, quat, quat_apply(turn[mine], motion.root_lin_vel[row]), spin)
        world.write_joint_state(ids, motion.joint_pos[row], motion.joint_vel[row])
