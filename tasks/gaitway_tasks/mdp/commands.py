"""Velocity command sampling with standing environments and heading control (Isaac Lab's ``UniformVelocityCommand``)."""

import torch
from torch import Tensor

from ..math import wrap_to_pi, yaw_of
from ..spec import UniformVelocityCommand
from ..world import World


def towards_ends(command: Tensor, ranges: Tensor, share: float, random: Tensor) -> Tensor:
    """``command`` (n, 3), of which a share is replaced by ones at the ends of ``ranges`` (3, 2).

    A quarter of their speeds are 0, the others 80 to 100 % of either end. ``random`` (5, n) is uniform in [0, 1).
    """
    side = random[:3].T
    ends = torch.where(side < 0.375, ranges[:, 0], torch.where(side < 0.75, ranges[:, 1], 0.0))
    return torch.where(random[4, :, None] < share, ends * (0.8 + 0.2 * random[3, :, None]), command)


class VelocityCommandGenerator:
    """State of one velocity command: the command (N, 3), its timers, headings and standing flags."""

    STATE = ("command", "time_left", "heading_target", "is_heading", "is_standing")

    def __init__(self, cfg: UniformVelocityCommand, world: World, generator: torch.Generator):
        self.cfg, self.world, self.generator = cfg, world, generator
        n = world.num_envs
        self.command = torch.zeros(n, 3, device=world.device)
        self.time_left = torch.zeros(n, device=world.device)
        self.heading_target = torch.zeros(n, device=world.device)
        self.is_heading = torch.zeros(n, dtype=torch.bool, device=world.device)
        self.is_standing = torch.zeros(n, dtype=torch.bool, device=world.device)

    def resample(self, env_ids: Tensor) -> None:
        """Draw new commands and timers for ``env_ids``."""
        cfg, n = self.cfg, len(env_ids)
        r = torch.rand(9, n, generator=self.generator, device=self.command.device)

        def uniform(row: int, limits: tuple[float, float]) -> Tensor:
            return limits[0] + (limits[1] - limits[0]) * r[row]

        self.time_left[env_ids] = uniform(0, cfg.resampling_time_range)
        command = torch.stack(
            (
                uniform(1, cfg.lin_vel_x) * (r[7] >= cfg.rel_zero_axis),
                uniform(2, cfg.lin_vel_y) * (r[8] >= cfg.rel_zero_axis),
                uniform(3, cfg.ang_vel_z),
            ),
            1,
        )
        if cfg.rel_ends:
            random = torch.rand(5, n, generator=self.generator, device=self.command.device)
            ranges = torch.tensor([cfg.lin_vel_x, cfg.lin_vel_y, cfg.ang_vel_z], device=command.device)
            command = towards_ends(command, ranges, cfg.rel_ends, random)
        self.command[env_ids] = (1.0 + cfg.margin) * command
        self.heading_target[env_ids] = uniform(4, cfg.heading)
        self.is_heading[env_ids] = (r[5] <= cfg.rel_heading_envs) & cfg.heading_command
        self.is_standing[env_ids] = r[6] <= cfg.rel_standing_envs

    def step(self, dt: float) -> None:
        """Advance the timers by ``dt``, resample what is due, and follow the headings."""
        self.time_left -= dt
        due = (self.time_left <= 0.0).nonzero().flatten()
        if len(due):
            self.resample(due)
        self.turn_to_heading()

    def turn_to_heading(self) -> None:
        """Turn heading errors into yaw rates and hold standing environments at zero."""
        if self.cfg.heading_command:
            error = wrap_to_pi(self.heading_target - yaw_of(self.world.robot.root_quat_wxyz))
            rate = (self.cfg.heading_control_stiffness * error).clamp(*self.cfg.ang_vel_z)
            self.command[:, 2] = torch.where(self.is_heading, rate, self.command[:, 2])
        self.command.masked_fill_(self.is_standing[:, None], 0.0)
