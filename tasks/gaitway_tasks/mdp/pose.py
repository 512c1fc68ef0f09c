"""Poses of a body, an arm's hand: the command, what a policy sees of it, and rewards, ``(N,)``, unweighted.

Formulas are Isaac Lab 2.3.2's (``isaaclab_tasks/manager_based/manipulation/reach/mdp/rewards.py``). A pose is told as
six numbers: x, y, z [m] and roll, pitch, yaw [rad], rotations about the fixed axes x, y and z, in the base's frame.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from ..commands import Command, CommandSampler
from ..math import quat_apply, quat_conjugate, quat_error_magnitude, quat_from_euler_xyz, quat_mul
from ..passes import once
from ..signals import reads
from ..world import RobotState, World
from . import indices

Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class UniformPoseCommand(Command):
    """Pose of one body, drawn uniformly, as Isaac Lab's ``UniformPoseCommand``.

    ``acceleration`` is Gaitway's: an exported policy changes its command no faster than this per second, beginning at
    ``rest``. With ``ramp``, so does training; Isaac Lab's commands jump.
    """

    resampling_time_range: Range = (4.0, 4.0)
    body: int
    """Index of the body among the robot's ``body_names``."""
    pos_x: Range
    pos_y: Range
    pos_z: Range
    roll: Range = (0.0, 0.0)
    pitch: Range = (0.0, 0.0)
    yaw: Range = (-math.pi, math.pi)
    rest: tuple[float, ...]
    acceleration: tuple[float, ...] = (0.25, 0.25, 0.25, 1.3, 1.3, 1.3)
    ramp: bool = False
    units: ClassVar[tuple[str, ...]] = ("m", "m", "m", "rad", "rad", "rad")
    suite: ClassVar[str] = "gaitway_reach.suite:SUITE"

    def ranges(self) -> dict[str, Range]:
        places = {"x": self.pos_x, "y": self.pos_y, "z": self.pos_z}
        return {**places, "roll": self.roll, "pitch": self.pitch, "yaw": self.yaw}

    def sampler(self, world: World, generator: torch.Generator) -> CommandSampler:
        return PoseCommandGenerator(self, world, generator) if self.ramp else super().sampler(world, generator)

    def errors(self, told: Tensor, robot: RobotState) -> dict[str, Tensor]:
        """``position`` [m] and ``orientation`` [rad] of the body off what it was told."""
        return {"position": _distance(told, robot, self.body), "orientation": _angle(told, robot, self.body)}


class PoseCommandGenerator(CommandSampler):
    """State of a command that follows what was drawn at a limited rate, as that of an exported policy does."""

    STATE = (*CommandSampler.STATE, "asked")

    def __init__(self, cfg: UniformPoseCommand, world: World, generator: torch.Generator):
        super().__init__(cfg, world, generator)
        self.most, self.rest = cfg.acceleration, cfg.rest
        self.asked = torch.zeros_like(self.command)
        """The poses that were drawn, (N, 6)."""

    def resample(self, env_ids: Tensor) -> None:
        held = self.command[env_ids]
        super().resample(env_ids)
        self.asked[env_ids], self.command[env_ids] = self.command[env_ids], held

    def advance(self, dt: float) -> None:
        super().advance(dt)
        most = dt * indices.row(self.most, self.command.device)
        self.command += (self.asked - self.command).clamp(-most, most)

    def follow(self) -> None:
        """Begin episodes at rest."""
        begins = (self.world.episode_step == 0)[:, None]
        self.command.copy_(torch.where(begins, indices.row(self.rest, self.command.device), self.command))


def _distance(told: Tensor, robot: RobotState, body: int) -> Tensor:
    wanted = robot.root_pos_w + quat_apply(robot.root_quat_wxyz, told[:, :3])
    return torch.linalg.vector_norm(robot.body_pos_w[:, body] - wanted, dim=1)


def _angle(told: Tensor, robot: RobotState, body: int) -> Tensor:
    wanted = quat_mul(robot.root_quat_wxyz, quat_from_euler_xyz(*told[:, 3:].unbind(1)))
    return quat_error_magnitude(robot.body_quat_wxyz[:, body], wanted)


@functools.cache
def _links(mjcf: Path, joints: tuple[str, ...], base: str, body: str, device: torch.device) -> tuple[Tensor, ...]:
    """Bodies after ``base`` up to ``body``: places (L, 3), joints (L,), half of one or nothing of each angle (L,), and
    quaternions at cosine and sine of that (L, 4)."""
    from ..robots.arms import chain

    links = chain(mjcf, joints, base, body)
    place, quat, axis = (torch.tensor([getattr(link, name) for link in links]) for name in ("pos", "quat", "axis"))
    joint, moves = torch.tensor([link.joint for link in links]), axis.any(1).float()
    turned = quat_mul(quat, torch.cat((torch.zeros(len(links), 1), axis), 1))
    return tuple(values.to(device) for values in (place, joint, 0.5 * moves, quat, turned))


@once
def _measured_pose(world: World, body: str) -> tuple[Tensor, Tensor]:
    """Place [m] (N, 3) and quaternion (N, 4) of ``body`` in the base's frame, by the encoders.

    The quaternion keeps its sign: it tells by how many turns a joint is wound up.
    """
    spec = world.spec
    places, joints, share, quats, turned = _links(spec.mjcf, spec.joint_names, spec.base_name, body, world.device)
    half = share * world.robot.joint_pos.index_select(1, joints)
    local = half.cos()[..., None] * quats + half.sin()[..., None] * turned  # (N, L, 4)
    rows = half.shape[0]  # not len(), which fixes the batch size of an exported graph
    place, quat = places[0].expand(rows, 3), local[:, 0]
    for link in range(1, len(places)):
        place = place + quat_apply(quat, places[link].expand(rows, 3))
        quat = quat_mul(quat, local[:, link])
    return place, quat


@reads("joint_pos", "command")
def measured_position_error(world: World, command_name: str, body: str) -> Tensor:
    """Way from where the encoders say that ``body`` is to its place, in the base's frame [m], (N, 3)."""
    return world.command(command_name)[:, :3] - _measured_pose(world, body)[0]


@reads("joint_pos", "command")
def measured_orientation_error(world: World, command_name: str, body: str) -> Tensor:
    """Rotation from how the encoders say that ``body`` is turned to how it is told to be, w, x, y, z, (N, 4)."""
    told = quat_from_euler_xyz(*world.command(command_name)[:, 3:].unbind(1))
    return quat_mul(told, quat_conjugate(_measured_pose(world, body)[1]))


@reads("command")
def pose_command(world: World, command_name: str) -> Tensor:
    """The pose that the body is told to have: x, y, z [m] and quaternion w, x, y, z in the base's frame, (N, 7).

    Isaac Lab's ``generated_commands`` of a pose.
    """
    told = world.command(command_name)
    return torch.cat((told[:, :3], quat_from_euler_xyz(*told[:, 3:].unbind(1))), 1)


@once
def _position_error(world: World, command_name: str, body: str) -> Tensor:
    return _distance(world.command(command_name), world.robot, world.spec.body_ids(body)[0])


@once
def _orientation_error(world: World, command_name: str, body: str) -> Tensor:
    return _angle(world.command(command_name), world.robot, world.spec.body_ids(body)[0])


@reads("body_pos_w")
def position_command_error(world: World, command_name: str, body: str) -> Tensor:
    """Distance of ``body`` from its place [m]."""
    return _position_error(world, command_name, body).clone()


@reads("body_pos_w")
def position_command_error_tanh(world: World, std: float, command_name: str, body: str) -> Tensor:
    """1 - tanh(d / std) of the distance d of ``body`` from its place [m]."""
    return 1.0 - torch.tanh(_position_error(world, command_name, body) / std)


@reads("body_quat_wxyz")
def orientation_command_error(world: World, command_name: str, body: str) -> Tensor:
    """Angle between the orientation of ``body`` and the one that it is told [rad]."""
    return _orientation_error(world, command_name, body).clone()


@reads("body_quat_wxyz")
def orientation_command_error_tanh(world: World, std: float, command_name: str, body: str) -> Tensor:
    """1 - tanh(a / std) of the angle a between the orientation of ``body`` and the one that it is told [rad].

    Gaitway's: beside the plain angle, it pays for the last tenth of a radian.
    """
    return 1.0 - torch.tanh(_orientation_error(world, command_name, body) / std)


def joint_speed_excess(world: World, limit: float, joints: str) -> Tensor:
    """Sum over ``joints`` of how much faster they are than ``limit`` [rad/s].

    Gaitway's: an arm stops at a joint that is too fast, and a cost of squared speeds spreads over slow ones.
    """
    speed = indices.of_joints(world, world.robot.joint_vel, joints).abs()
    return (speed - limit).clamp(min=0.0).sum(1)
