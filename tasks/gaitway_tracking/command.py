"""The command of a motion: to play it, or to stand. Training keeps its clock, and begins episodes where it fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from gaitway_tasks.commands import Command, CommandSampler
from gaitway_tasks.math import quat_apply, quat_from_yaw, quat_mul, wrap_to_pi, yaw_of
from gaitway_tasks.world import World
from torch import Tensor

from .reference import Reference, bundled, reference

BIN = 0.5
"""Length of the parts of a motion whose failures are counted together [s]."""


@dataclass(frozen=True, kw_only=True)
class MotionCommand(Command):
    """A motion to follow. An operator says ``play``: 1 plays it, again and again, and 0 stands when it has ended.

    In training the command (N, 4) is the frame of each robot's reference, and where the reference's world lies: x, y
    [m] and heading [rad]. Episodes begin at a frame that is drawn by failures, as BeyondMimic's adaptive sampling
    (Liao et al. 2025, arXiv 2508.08241): frames of bins of :data:`BIN` in which episodes ended by a fall are drawn
    more often.
    """

    clip: str = "trot"
    """A motion of :data:`.generator.MOTIONS`, or the path of a file."""
    local: bool = False
    """True if the reference goes with the robot's place and heading, which a policy without an estimate of them cannot
    hold; False if it stays where the motion has it."""
    resampling_time_range: tuple[float, float] = (4.0, 10.0)
    rel_standing_envs: float = 0.1
    """Share of the draws that are to stand."""
    uniform_share: float = 0.1
    """Share of the starts that are drawn uniformly."""
    failure_average: float = 0.001
    """Weight of an episode in the mean number of failures of each bin."""
    smoothing: float = 0.8
    """Weight by which failures of a bin count for the one before it: a fall has its cause earlier."""
    units: ClassVar[tuple[str, ...]] = ("1",)
    acceleration: tuple[float, ...] = (100.0,)
    rest: tuple[float, ...] = (0.0,)
    suite: ClassVar[str] = "gaitway_tracking.suite:SUITE"

    def ranges(self) -> dict[str, tuple[float, float]]:
        return {"play": (0.0, 1.0)}

    def sampler(self, world: World, generator: torch.Generator) -> CommandSampler:
        return MotionSampler(self, world, generator)

    def reference(self, world: World) -> Reference:
        """The motion for the robots of ``world``."""
        return reference(self.clip, world.spec, world.step_dt, world.device)

    def limited(self, told: Tensor, last: Tensor, world: World) -> Tensor:
        """Frame (N, 1) after the frame ``last`` (N, 1) of a robot that is ``told`` (N, 1) to play or not."""
        return self.reference(world).next(last, told)

    def settles(self, world: World) -> float:
        return len(self.reference(world)) * world.step_dt

    def motion(self, world: World) -> bytes:
        return bundled(self.clip, world.spec, world.step_dt)


class MotionSampler(CommandSampler):
    """State of the motions: frames and places (N, 4), what robots are told (N,), and failures of each bin."""

    STATE = (*CommandSampler.STATE, "play", "failed")

    def __init__(self, cfg: MotionCommand, world: World, generator: torch.Generator):
        super().__init__(cfg, world, generator)
        n, device = world.num_envs, world.device
        self.cfg = cfg
        self.reference = cfg.reference(world)
        self.command = torch.zeros(n, 4, device=device)
        self.play = torch.zeros(n, device=device)
        self.bin_steps = max(1, round(BIN / world.step_dt))
        bins = -(-len(self.reference) // self.bin_steps)
        self.failed = torch.zeros(bins, device=device)
        """Mean number of failures in each bin."""

    def _rand(self, n: int) -> Tensor:
        return torch.rand(n, generator=self.generator, device=self.command.device)

    def resample(self, env_ids: Tensor) -> None:
        """Draw what ``env_ids`` are told, and for how long."""
        low, high = self.cfg.resampling_time_range
        self.time_left[env_ids] = low + (high - low) * self._rand(len(env_ids))
        self.play[env_ids] = (self._rand(len(env_ids)) >= self.cfg.rel_standing_envs).float()

    def restart(self, env_ids: Tensor) -> Tensor:
        """Draw the frames (n,) at which new episodes of ``env_ids`` begin, after counting where the old ones ended."""
        ended = self.world.terminated[env_ids]
        counts = torch.zeros_like(self.failed)
        bins = (self.command[env_ids, 0] / self.bin_steps).long()
        counts.index_add_(0, bins, ended.float())
        rate = self.cfg.failure_average * len(env_ids)
        self.failed.mul_(1.0 - min(rate, 1.0)).add_(self.cfg.failure_average * counts)
        n = len(env_ids)
        chosen = torch.multinomial(self.chances(), n, replacement=True, generator=self.generator)
        frame = (chosen + self._rand(n)) * self.bin_steps
        frame = frame.floor().clamp(max=len(self.reference) - 2.0)
        return torch.where(self._rand(n) < self.cfg.rel_standing_envs, 0.0, frame)

    def chances(self) -> Tensor:
        """Chance of each bin, (bins,)."""
        weight = self.cfg.smoothing
        blamed = self.failed + weight * torch.cat((self.failed[1:], self.failed[:1]))
        total, even = blamed.sum(), 1.0 / len(self.failed)
        share = torch.where(total > 0.0, blamed / total.clamp(min=1e-12), torch.full_like(blamed, even))
        return (1.0 - self.cfg.uniform_share) * share + self.cfg.uniform_share * even

    def place(self, env_ids: Tensor, frame: Tensor, pos_w: Tensor, heading: Tensor) -> None:
        """Let the references of ``env_ids`` be at ``frame`` (n,), with the base at ``pos_w`` (n, 2+) [m] and
        ``heading`` (n,) [rad]."""
        self.command[env_ids, 0] = frame
        self.command[env_ids, 1:] = self._world_of(frame, pos_w, heading)

    def _world_of(self, frame: Tensor, pos_w: Tensor, heading: Tensor) -> Tensor:
        """Place and heading (n, 3) of the world in which the reference's base is where it is told at ``frame``."""
        row = frame.long()
        base, turned = self.reference.body_pos[row, 0], yaw_of(self.reference.body_quat_wxyz[row, 0])
        yaw = wrap_to_pi(heading - turned)
        origin = pos_w[:, :2] - quat_apply(quat_from_yaw(yaw), base)[:, :2]
        return torch.cat((origin, yaw[:, None]), 1)

    def advance(self, dt: float) -> None:
        frame = self.command[:, 0]
        after = self.reference.next(frame, self.play)
        after = torch.where(self.world.episode_step == 0, frame, after)  # a new episode is told its first frame
        if self.cfg.local:
            robot = self.world.robot
            self.command[:, 1:] = self._world_of(frame, robot.root_pos_w, yaw_of(robot.root_quat_wxyz))
        # Where a motion would be one frame on, the frame to which it jumps goes on.
        base, turn = reference_base(self.reference, frame + 1.0, self.command)
        jumped = after < frame
        placed = torch.where(jumped[:, None], self._world_of(after, base, yaw_of(turn)), self.command[:, 1:])
        self.command = torch.cat((after[:, None], placed), 1)


def reference_base(motion: Reference, frame: Tensor, command: Tensor) -> tuple[Tensor, Tensor]:
    """Place [m], (N, 3), and rotation (N, 4) of the reference's base at ``frame`` (N,), in the world."""
    pos, quat = bodies_in_world(motion.body_pos[frame.long(), :1], motion.body_quat_wxyz[frame.long(), :1], command)
    return pos[:, 0], quat[:, 0]


def bodies_in_world(pos: Tensor, quat: Tensor, command: Tensor) -> tuple[Tensor, Tensor]:
    """Places (N, B, 3) [m] and rotations (N, B, 4) of the motion's world, in the world of the robots."""
    turn = quat_from_yaw(command[:, 3])[:, None].expand(-1, pos.shape[1], -1)
    shift = torch.cat((command[:, 1:3], torch.zeros_like(command[:, :1])), 1)
    return quat_apply(turn, pos) + shift[:, None], quat_mul(turn, quat)


def sampler_of(world: Any, command_name: str) -> MotionSampler:
    """State of the motions of ``world``."""
    found = world.commands[command_name]
    assert isinstance(found, MotionSampler)
    return found
