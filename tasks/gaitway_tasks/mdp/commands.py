"""Velocity command sampling with standing environments and heading control (Isaac Lab's ``UniformVelocityCommand``)."""

import torch
from torch import Tensor

from ..math import wrap_to_pi, yaw_of
from ..spec import UniformVelocityCommand
from ..world import World


class VelocityCommandGenerator:
    """State of one velocity command: the command (N, 3), its timers, headings and standing flags.

    ``target`` (N, 3) is what was drawn. ``command`` follows it as fast as the task's ``acceleration`` lets it; without
    a limit they are one tensor.
    """

    STATE = ("command", "target", "time_left", "heading_target", "is_heading", "is_standing")

    def __init__(self, cfg: UniformVelocityCommand, world: World, generator: torch.Generator):
        self.cfg, self.world, self.generator = cfg, world, generator
        n = world.num_envs
        self.command = torch.zeros(n, 3, device=world.device)
        self._drawn: Tensor | None = None
        if cfg.acceleration is not None:
            self._drawn = torch.zeros_like(self.command)
            self._largest_change = torch.tensor(cfg.acceleration, device=world.device) * world.step_dt
        self.time_left = torch.zeros(n, device=world.device)
        self.heading_target = torch.zeros(n, device=world.device)
        self.is_heading = torch.zeros(n, dtype=torch.bool, device=world.device)
        self.is_standing = torch.zeros(n, dtype=torch.bool, device=world.device)

    @property
    def target(self) -> Tensor:
        return self.command if self._drawn is None else self._drawn

    def resample(self, env_ids: Tensor) -> None:
        """Draw new commands and timers for ``env_ids``."""
        cfg, n = self.cfg, len(env_ids)
        r = torch.rand(9, n, generator=self.generator, device=self.command.device)

        def uniform(row: int, limits: tuple[float, float]) -> Tensor:
            return limits[0] + (limits[1] - limits[0]) * r[row]

        self.time_left[env_ids] = uniform(0, cfg.resampling_time_range)
        self.target[env_ids] = torch.stack(
            (
                uniform(1, cfg.lin_vel_x) * (r[7] >= cfg.rel_zero_axis),
                uniform(2, cfg.lin_vel_y) * (r[8] >= cfg.rel_zero_axis),
                uniform(3, cfg.ang_vel_z),
            ),
            1,
        )
        self.heading_target[env_ids] = uniform(4, cfg.heading)
        self.is_heading[env_ids] = (r[5] <= cfg.rel_heading_envs) & cfg.heading_command
        self.is_standing[env_ids] = r[6] <= cfg.rel_standing_envs

    def step(self, dt: float) -> None:
        """Advance the timers by ``dt``, resample what is due, and follow headings and targets."""
        self.time_left -= dt
        due = (self.time_left <= 0.0).nonzero().flatten()
        if len(due):
            self.resample(due)
        self.turn_to_heading()
        self.follow()

    def reset(self, env_ids: Tensor) -> None:
        """Begin an episode of ``env_ids``: a new target, which a limited command approaches from zero."""
        self.command[env_ids] = 0.0
        self.resample(env_ids)

    def follow(self) -> None:
        """Move a limited command towards its target by one control step."""
        if self._drawn is not None:
            self.command += torch.clamp(self._drawn - self.command, -self._largest_change, self._largest_change)

    def turn_to_heading(self) -> None:
        """Turn heading errors into yaw rates and hold standing environments at zero."""
        if self.cfg.heading_command:
            error = wrap_to_pi(self.heading_target - yaw_of(self.world.robot.root_quat_wxyz))
            rate = (self.cfg.heading_control_stiffness * error).clamp(*self.cfg.ang_vel_z)
            self.target[:, 2] = torch.where(self.is_heading, rate, self.target[:, 2])
        self.target.masked_fill_(self.is_standing[:, None], 0.0)
