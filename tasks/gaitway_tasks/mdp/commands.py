"""Velocity commands in training, with standing environments and heading control (Isaac Lab's)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from ..commands import TWIST, Command, CommandSampler
from ..math import wrap_to_pi, yaw_of
from ..world import RobotState, World
from . import indices


def towards_ends(command: Tensor, ranges: Tensor, share: float, random: Tensor) -> Tensor:
    """``command`` (n, 3), of which a share is replaced by ones at the ends of ``ranges`` (3, 2).

    A quarter of their speeds are 0, the others 80 to 100 % of either end. ``random`` (5, n) is uniform in [0, 1).
    """
    side = random[:3].T
    ends = torch.where(side < 0.375, ranges[:, 0], torch.where(side < 0.75, ranges[:, 1], 0.0))
    return torch.where(random[4, :, None] < share, ends * (0.8 + 0.2 * random[3, :, None]), command)


STANDS = 0.1
"""Length of a command (vx, vy [m/s], yaw rate [rad/s]) up to which a robot is told to stand."""
SIDEWAYS = 0.2
"""Share of the sideways speeds and yaw rates that are asked for before commands have grown."""


def settling(command: Tensor, left: Tensor, settle: float, dt: float) -> Tensor:
    """Time for which robots told to stand are still to step [s], (N,), ``dt`` after it was ``left`` (N,)."""
    stands = torch.linalg.vector_norm(command, dim=1) <= STANDS
    return torch.where(stands, (left - dt).clamp(min=0.0), settle)


def grown(command: Tensor, level: Tensor, forwards: float, random: Tensor) -> Tensor:
    """``command`` (n, 3) of a robot that has learnt a share ``level`` of all commands.

    At 0 none leads backwards, and sideways speeds and yaw rates are small. A robot without a front-back mirror that is
    told to go forwards as often as backwards is paid for moving only once it reads the command, and steps on the spot
    until then. ``forwards`` is the highest speed [m/s], ``random`` (n,) uniform in [0, 1).
    """
    speed = command[:, 0]
    turned = torch.where((speed < 0.0) & (random >= level), (-speed).clamp(max=forwards), speed)
    return torch.cat((turned[:, None], command[:, 1:] * (SIDEWAYS + (1.0 - SIDEWAYS) * level)), 1)


@dataclass(frozen=True, kw_only=True)
class UniformVelocityCommand(Command):
    """Base velocity command (vx, vy [m/s], yaw rate [rad/s]), as Isaac Lab's ``UniformVelocityCommand``.

    With ``heading_command`` a target heading is drawn and the yaw rate follows
    ``heading_control_stiffness * heading error``, clipped to ``ang_vel_z``. ``rel_zero_axis`` is Gaitway's: the share
    of commands in which each linear axis is exactly zero, a case that a uniform draw never produces. ``acceleration``
    [m/s^2, m/s^2, rad/s^2] is Gaitway's too: an exported policy follows the operator's command from zero, and changes
    it no faster than this. Training is harder: there commands jump. None does not limit them. So are ``rel_ends``, the
    share of commands each of whose speeds is 0 or 80 to 100 % of an end of its range, and ``margin``: training draws
    from ranges that are wider by this share, so that an exported policy, whose commands are calibrated, knows what it
    is then asked. With ``ramp``, commands in training change no faster than ``acceleration`` either, and an episode
    begins at rest. ``settle`` [s] is how much longer the clock of a robot that is told to stand goes on (no longer than
    :data:`STANDS`): it has to step before it can.
    """

    resampling_time_range: tuple[float, float] = (10.0, 10.0)
    rel_standing_envs: float = 0.02
    rel_heading_envs: float = 1.0
    rel_zero_axis: float = 0.0
    rel_ends: float = 0.0
    margin: float = 0.0
    acceleration: tuple[float, float, float] | None = None
    ramp: bool = False
    settle: float = 0.0
    heading_command: bool = True
    heading_control_stiffness: float = 0.5
    lin_vel_x: tuple[float, float] = (-1.0, 1.0)
    lin_vel_y: tuple[float, float] = (-1.0, 1.0)
    ang_vel_z: tuple[float, float] = (-1.0, 1.0)
    heading: tuple[float, float] = (-3.141592653589793, 3.141592653589793)
    mirror: ClassVar[str] = "planar_twist"
    units: ClassVar[tuple[str, ...]] = ("m/s", "m/s", "rad/s")

    def __post_init__(self) -> None:
        if self.ramp and (self.acceleration is None or self.heading_command):
            raise UserError(
                "ramp: commands follow what was drawn at a limited acceleration, so it needs acceleration, and "
                "heading_command false"
            )
        if not 0.0 <= self.settle < math.inf:
            raise UserError(f"settle = {self.settle:g} s: it must be 0 or a time after which a robot is to stand")

    def ranges(self) -> dict[str, tuple[float, float]]:
        return {name: getattr(self, name) for name in TWIST}

    def sampler(self, world: World, generator: torch.Generator) -> CommandSampler:
        return VelocityCommandGenerator(self, world, generator)

    def steered(self) -> UniformVelocityCommand:
        never = (1e9, 1e9)
        return replace(self, heading_command=False, rel_standing_envs=0.0, resampling_time_range=never)

    def settles(self, world: World) -> float:
        return self.settle

    def errors(self, told: Tensor, robot: RobotState) -> dict[str, Tensor]:
        """Errors of the base velocity: ``linear`` [m/s] and ``yaw`` [rad/s]."""
        planar = (told[:, :2] - robot.root_lin_vel_b[:, :2]).norm(dim=1)
        return {"linear": planar, "yaw": (told[:, 2] - robot.root_ang_vel_b[:, 2]).abs()}

    @classmethod
    def of(cls, task: Any) -> UniformVelocityCommand:
        """``base_velocity`` of a velocity task."""
        found = task.commands.get("base_velocity")
        if not isinstance(found, cls):
            raise UserError(f"{task.name} has no command base_velocity that is a {cls.__name__}: leave the preset out")
        return found


class VelocityCommandGenerator(CommandSampler):
    """State of one velocity command: the command (N, 3), its timers, headings and standing flags."""

    STATE = (*CommandSampler.STATE, "heading_target", "is_heading", "is_standing", "asked", "left")

    def __init__(self, cfg: UniformVelocityCommand, world: World, generator: torch.Generator):
        super().__init__(cfg, world, generator)
        self.cfg, n = cfg, world.num_envs
        self.heading_target = torch.zeros(n, device=world.device)
        self.is_heading = torch.zeros(n, dtype=torch.bool, device=world.device)
        self.is_standing = torch.zeros(n, dtype=torch.bool, device=world.device)
        self.asked = torch.zeros_like(self.command) if cfg.ramp else self.command
        """The commands that were drawn, (N, 3)."""
        self.left = torch.zeros(n, device=world.device)
        self.settling = self.left if cfg.settle else None
        self.speeds = cfg.lin_vel_x, cfg.lin_vel_y, cfg.ang_vel_z
        self.drawn = cfg.resampling_time_range, *self.speeds, cfg.heading
        """Ranges of what is drawn: time, speeds and heading."""

    def resample(self, env_ids: Tensor) -> None:
        cfg, n = self.cfg, len(env_ids)
        r = torch.rand(9, n, generator=self.generator, device=self.command.device)
        low, span = indices.spans(self.drawn, r.device)
        drawn = low + span * r[:5]
        drawn[1:3] *= r[7:] >= cfg.rel_zero_axis
        command = drawn[1:4].T
        if cfg.rel_ends:
            random = torch.rand(5, n, generator=self.generator, device=self.command.device)
            command = towards_ends(command, indices.row(self.speeds, r.device), cfg.rel_ends, random)
        if (level := self.world.growth) is not None:
            random = torch.rand(n, generator=self.generator, device=self.command.device)
            command = grown(command, level, cfg.lin_vel_x[1], random)
        self.time_left.index_copy_(0, env_ids, drawn[0])
        self.asked.index_copy_(0, env_ids, (1.0 + cfg.margin) * command)
        self.heading_target.index_copy_(0, env_ids, drawn[4])
        if cfg.heading_command:
            self.is_heading.index_copy_(0, env_ids, r[5] <= cfg.rel_heading_envs)
        self.is_standing.index_copy_(0, env_ids, r[6] <= cfg.rel_standing_envs)

    def follow(self) -> None:
        """Turn heading errors into yaw rates and hold standing environments at zero."""
        if self.cfg.heading_command:
            error = wrap_to_pi(self.heading_target - yaw_of(self.world.robot.root_quat_wxyz))
            rate = (self.cfg.heading_control_stiffness * error).clamp(*self.cfg.ang_vel_z)
            self.command[:, 2] = torch.where(self.is_heading, rate, self.command[:, 2])
        self.asked.masked_fill_(self.is_standing[:, None], 0.0)

    def advance(self, dt: float) -> None:
        super().advance(dt)
        if self.cfg.ramp:
            assert self.cfg.acceleration is not None
            most = dt * indices.row(self.cfg.acceleration, self.command.device)
            self.command += (self.asked - self.command).clamp(-most, most)
            self.command.masked_fill_((self.world.episode_step == 0)[:, None], 0.0)
        if self.cfg.settle:
            left = settling(self.command, self.left, self.cfg.settle, dt)
            self.left.copy_(left.masked_fill(self.world.episode_step == 0, 0.0))
