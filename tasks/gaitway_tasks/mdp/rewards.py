"""Reward terms, ``(N,)``, unweighted. ``std`` is sigma of ``exp(-e^2 / sigma^2)``.

Formulas are Isaac Lab 2.3.2's; ``feet_phase`` is MuJoCo Playground's, ``feet_gait`` unitree_rl_lab's,
``torque_limits`` legged_gym's. ``start`` is the share of a term that is paid until all commands have grown; then the
rest comes (:attr:`.World.style`).
"""

import math
from typing import Any

import torch
from torch import Tensor

from ..math import quat_apply, quat_apply_inverse, quat_from_yaw, yaw_of
from ..passes import once
from ..signals import reads
from ..stateful import StatefulTerm
from ..world import World
from . import gait, indices


def track_lin_vel_xy_exp(world: World, std: float, command_name: str) -> Tensor:
    """exp(-|cmd_xy - v_xy|^2 / std^2), velocities in the base frame."""
    return torch.exp(_planar_error(world, command_name) / -(std**2))


def track_ang_vel_z_exp(world: World, std: float, command_name: str, start: float = 1.0) -> Tensor:
    """exp(-(cmd_yaw - w_z)^2 / std^2), angular velocity in the base frame."""
    return _grown(world, start, torch.exp(_yaw_error(world, command_name) / -(std**2)))


def _grown(world: World, start: float, values: Tensor) -> Tensor:
    """``values`` (N,), less at first."""
    return values if world.style is None or start == 1.0 else values * (start + (1.0 - start) * world.style)


@once
def _planar_error(world: World, command_name: str) -> Tensor:
    """Squared error of the planar velocity [m^2/s^2], (N,)."""
    return (world.command(command_name)[:, :2] - world.robot.root_lin_vel_b[:, :2]).square_().sum(1)


@once
def _yaw_error(world: World, command_name: str) -> Tensor:
    """Squared error of the yaw rate [rad^2/s^2], (N,)."""
    return (world.command(command_name)[:, 2] - world.robot.root_ang_vel_b[:, 2]).square_()


def track_lin_vel_xy_yaw_frame_exp(world: World, std: float, command_name: str) -> Tensor:
    """As ``track_lin_vel_xy_exp`` with the velocity in the gravity-aligned, yaw-rotated frame."""
    robot = world.robot
    vel_w = quat_apply(robot.root_quat_wxyz, robot.root_lin_vel_b)
    vel = quat_apply_inverse(quat_from_yaw(yaw_of(robot.root_quat_wxyz)), vel_w)
    error = (world.command(command_name)[:, :2] - vel[:, :2]).square().sum(1)
    return torch.exp(-error / std**2)


def track_ang_vel_z_world_exp(world: World, std: float, command_name: str) -> Tensor:
    """As ``track_ang_vel_z_exp`` with the angular velocity about the world's z axis."""
    robot = world.robot
    ang_vel_w = quat_apply(robot.root_quat_wxyz, robot.root_ang_vel_b)
    return torch.exp(-(world.command(command_name)[:, 2] - ang_vel_w[:, 2]).square() / std**2)


def lin_vel_xy_progress(world: World, command_name: str, threshold: float = 0.1, still: float = 0.3) -> Tensor:
    """Speed along the command over the speed asked, between -1 and 1.

    It has a slope where the exponential rewards have none. For a command below ``threshold`` [m/s], 1 at rest and 0
    from the speed ``still`` [m/s] on.
    """
    told, speed = world.command(command_name)[:, :2], world.robot.root_lin_vel_b[:, :2]
    asked = torch.linalg.vector_norm(told, dim=1)
    along = (speed * told).sum(1) / asked.square().clamp(min=threshold**2)
    resting = 1.0 - (torch.linalg.vector_norm(speed, dim=1) / still).clamp(max=1.0)
    return torch.where(asked > threshold, along.clamp(-1.0, 1.0), resting)


class track_mean_ang_vel_z_exp(StatefulTerm):
    """exp(-(cmd_yaw - mean w_z)^2 / std^2), with a running mean over about ``time`` [s].

    A walking robot on two legs turns to and fro within each step, by more than narrow rewards reach: paid for the
    momentary yaw rate, it learns to swing less and not to turn.
    """

    STATE = ("mean", "fresh")

    def __init__(self, term: Any, world: World):
        self.mean = torch.zeros(world.num_envs, device=world.device)
        self.fresh = torch.ones(world.num_envs, dtype=torch.bool, device=world.device)
        """Episodes of which no step was seen yet: their mean starts at the command."""

    def __call__(self, world: World, std: float, command_name: str, time: float) -> Tensor:
        told = world.command(command_name)[:, 2]
        self.mean.copy_(torch.where(self.fresh, told, self.mean))
        self.mean.lerp_(world.robot.root_ang_vel_b[:, 2], world.step_dt / time)
        self.fresh.zero_()
        return torch.exp((told - self.mean).square() / -(std**2))

    def reset(self, env_ids: Tensor) -> None:
        """Begin the means of new episodes."""
        self.fresh[env_ids] = True


def lin_vel_z_l2(world: World) -> Tensor:
    """Squared vertical velocity of the base in its own frame [m^2/s^2], (N,)."""
    return world.robot.root_lin_vel_b[:, 2].square()


def ang_vel_xy_l2(world: World, start: float = 1.0) -> Tensor:
    """Squared roll and pitch rates of the base in its own frame [rad^2/s^2], (N,)."""
    return _grown(world, start, world.robot.root_ang_vel_b[:, :2].square().sum(1))


def joint_torques_l2(world: World, joints: str = ".*") -> Tensor:
    """Sum of the squared torques [N^2 m^2] of ``joints``."""
    return indices.of_joints(world, world.robot.applied_torque, joints).square().sum(1)


def torque_limits(world: World, soft_ratio: float) -> Tensor:
    """Sum over joints of how far |torque| is beyond ``soft_ratio`` of the effort limit, in effort limits."""
    limits = indices.row(tuple(law.effort_limit for law in world.spec.joint_actuators), world.device)
    return (world.robot.applied_torque.abs() / limits - soft_ratio).clamp(min=0.0).sum(1)


def joint_acc_l2(world: World, joints: str = ".*") -> Tensor:
    """Sum of the squared accelerations [rad^2/s^4] of ``joints``."""
    return indices.of_joints(world, world.robot.joint_acc, joints).square().sum(1)


def joint_vel_l2(world: World) -> Tensor:
    """Sum of the squared velocities [rad^2/s^2] of all joints, (N,)."""
    return world.robot.joint_vel.square().sum(1)


def action_rate_l2(world: World) -> Tensor:
    """Sum of the squared changes of the actions since the last control step, (N,)."""
    return _action_rate(world).clone()


@once
def _action_rate(world: World) -> Tensor:
    return (world.action - world.previous_action).square_().sum(1)


def action_l2(world: World) -> Tensor:
    """Sum of the squared actions, (N,)."""
    return world.action.square().sum(1)


def feet_air_time(world: World, command_name: str, feet: str, threshold: float) -> Tensor:
    """Sum over the feet that touch down of (swing duration - threshold), for commands above 0.1 m/s.

    As in Isaac Lab, a swing shorter than ``threshold`` [s] is penalised and a longer one rewarded.
    """
    robot = world.robot
    ids = indices.feet(world, feet)
    first_contact = first_contacts(world)[:, ids]
    reward = ((robot.last_air_time[:, ids] - threshold) * first_contact).sum(1)
    return reward * (world.command(command_name)[:, :2].norm(dim=1) > 0.1)


def feet_air_time_positive_biped(world: World, command_name: str, threshold: float, feet: str) -> Tensor:
    """Time in the current single-stance phase, at most ``threshold`` [s], for commands above 0.1 m/s."""
    robot = world.robot
    ids = indices.feet(world, feet)
    contact_time, air_time = robot.current_contact_time[:, ids], robot.current_air_time[:, ids]
    in_contact = contact_time > 0.0
    in_mode_time = torch.where(in_contact, contact_time, air_time)
    single_stance = in_contact.int().sum(1) == 1
    reward = torch.where(single_stance[:, None], in_mode_time, 0.0).amin(1).clamp(max=threshold)
    return reward * (world.command(command_name)[:, :2].norm(dim=1) > 0.1)


def feet_air_time_variance(world: World, command_name: str, feet: str, max_time: float = 0.5) -> Tensor:
    """Variances over the feet of the last swing and of the last stance [s^2], for commands above 0.1 m/s.

    Both times are cut at ``max_time`` [s]. Isaac Lab 3.0's, whose H1 otherwise leans to a side.
    """
    robot = world.robot
    ids = indices.feet(world, feet)
    times = torch.stack((robot.last_air_time[:, ids], robot.last_contact_time[:, ids]))
    uneven = times.clamp(max=max_time).var(dim=2).sum(0)
    return uneven * (world.command(command_name)[:, :2].norm(dim=1) > 0.1)


@reads("body_lin_vel_w")
def feet_slide(world: World, feet: str) -> Tensor:
    """Sum over the feet in contact (force above 1 N) of their horizontal speed [m/s]."""
    velocity = world.robot.body_lin_vel_w.index_select(1, indices.bodies(world, feet))
    speed = torch.linalg.vector_norm(velocity[..., :2], dim=-1)
    return (speed * gait.is_in_contact(world, feet)).sum(1)


SWING = 1.4
"""Power of the half sine that a foot's height follows in its swing: at 2, a smooth step, feet touch soft ground for a
fifth of the swing."""


@reads("body_pos_w")
def feet_phase(
    world: World,
    feet: str,
    period: float,
    duty: float,
    offsets: tuple[float, ...],
    height: float,
    std: float,
    command_name: str,
    threshold: float = 0.1,
    still: float = 0.25,
    reach: float = 0.0,
) -> Tensor:
    """exp(-sum((z - z_ref)^2) / std^2) over the soles' heights z [m] above the ground, which are to follow the clock.

    ``z_ref`` rises to ``height`` [m] in the middle of each swing, as ``sin^1.4``, and is 0 otherwise, or all the time
    while the robot is to stand (:func:`.gait.is_stepping`). Where the ground within ``reach`` [m] of a foot is higher
    than under it, the foot is to rise by as much more.
    """
    assert world.spec.foot_height is not None
    place = world.robot.body_pos_w.index_select(1, indices.bodies(world, feet))
    sole = world.ground.above(place) - world.spec.foot_height
    top = height + world.ground.higher(place[..., :2], reach) if reach else height
    wanted = top * gait.swing_rise(world, period, duty, offsets, SWING)
    wanted = wanted * gait.is_stepping(world, command_name, threshold, still)[:, None]
    return torch.exp((sole - wanted).square_().sum(1) / -(std**2))


def feet_gait(
    world: World,
    feet: str,
    period: float,
    duty: float,
    offsets: tuple[float, ...],
    command_name: str,
    threshold: float = 0.1,
    still: float = 0.25,
) -> Tensor:
    """Share of the feet whose contact (force above 1 N) is as the clock says, or on the ground while standing."""
    standing = ~gait.is_stepping(world, command_name, threshold, still)
    stance = gait.is_stance(world, period, duty, offsets) | standing[:, None]
    return (gait.is_in_contact(world, feet) == stance).float().mean(1)


def feet_stumble(world: World, feet: str, ratio: float = 4.0) -> Tensor:
    """Number of feet that are pushed sideways harder than ``ratio`` times upward: they hit the face of a step.

    legged_gym's ``stumble`` says whether there is one, at a ratio of 5.
    """
    force = world.robot.contact_force_w[:, indices.bodies(world, feet)]
    return (force[..., :2].norm(dim=-1) > ratio * force[..., 2].abs()).float().sum(1)


def undesired_contacts(world: World, bodies: str, threshold: float) -> Tensor:
    """Number of bodies whose contact force exceeds ``threshold`` [N]."""
    return (world.contact_force_norm(bodies) > threshold).float().sum(1)


def flat_orientation_l2(world: World) -> Tensor:
    """Squared sine of the base's tilt, from the gravity that lies in its x-y plane, (N,)."""
    return world.robot.projected_gravity_b[:, :2].square().sum(1)


def ground_orientation_l2(world: World, reach: float = 0.4) -> Tensor:
    """:func:`flat_orientation_l2` for a base that is to lie as the ground ``reach`` [m] around it does."""
    robot = world.robot
    normal = world.ground.lie(robot.root_pos_w[:, :2], reach)
    return quat_apply_inverse(robot.root_quat_wxyz, normal)[:, :2].square().sum(1)


def base_height_l2(world: World, target_height: float, sensor: str | None = None) -> Tensor:
    """Squared difference [m^2] of the base's height above the ground from ``target_height``.

    With ``sensor``, a height scanner, the ground is the mean of its points; those without ground are left out.
    """
    if sensor is None:
        return (world.ground.above(world.robot.root_pos_w) - target_height).square()
    scan = world.height_scan(sensor)
    seen = scan.isfinite()
    height = torch.where(seen, scan, 0.0).sum(1) / seen.sum(1).clamp(min=1)
    return (height - target_height).square()


def joint_pos_limits(world: World, joints: str = ".*") -> Tensor:
    """Sum over ``joints`` of how far [rad] they are beyond the soft limits."""
    limits = world.soft_joint_pos_limits
    pos = world.robot.joint_pos
    beyond = (limits[:, 0] - pos).clamp(min=0.0) + (pos - limits[:, 1]).clamp(min=0.0)
    return indices.of_joints(world, beyond, joints).sum(1)


def joint_deviation_l1(world: World, joints: str = ".*", start: float = 1.0) -> Tensor:
    """Sum of |q - q_default| [rad] over ``joints``."""
    deviation = world.robot.joint_pos - world.default_joint_pos
    return _grown(world, start, indices.of_joints(world, deviation, joints).abs().sum(1))


def stand_still_joint_deviation_l1(world: World, command_name: str, command_threshold: float = 0.06) -> Tensor:
    """|q - q_default| summed, only while the commanded planar velocity is below ``command_threshold`` [m/s]."""
    return joint_deviation_l1(world) * (world.command(command_name)[:, :2].norm(dim=1) < command_threshold)


def stand_still_joint_vel_l1(
    world: World, command_name: str, threshold: float = 0.1, still: float = math.inf
) -> Tensor:
    """Sum of |qd| [rad/s], only while the command (vx, vy, yaw rate) is no longer than ``threshold``.

    It leaves robots alone that are faster than ``still`` [m/s]: on two legs, some have to step before they stand.
    """
    return world.robot.joint_vel.abs().sum(1) * gait.should_stand(world, command_name, threshold, still)


def stand_still_action_rate_l2(
    world: World, command_name: str, threshold: float = 0.1, still: float = math.inf
) -> Tensor:
    """Squared change of the actions, where :func:`stand_still_joint_vel_l1` looks.

    Exploration hides a tremble of the joints from a cost of their speed, but not from this one.
    """
    return _action_rate(world) * gait.should_stand(world, command_name, threshold, still)


def is_alive(world: World) -> Tensor:
    """1 where the episode has not ended for another reason than time, (N,)."""
    return (~world.terminated).float()


def is_terminated(world: World) -> Tensor:
    """1 where the episode ended for another reason than time."""
    return world.terminated.float()


def first_contacts(world: World) -> Tensor:
    """Feet that touched down during the last control step, (N, F)."""
    contact_time = world.robot.current_contact_time
    return (contact_time > 0.0) & (contact_time < world.step_dt + world.contact_time_tolerance)
