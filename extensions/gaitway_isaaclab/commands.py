"""Isaac Lab's velocity commands without its waits for the GPU, and with Gaitway's own options."""

from __future__ import annotations

from typing import Any

import torch
from gaitway_tasks.commands import Command
from gaitway_tasks.mdp.commands import UniformVelocityCommand, grown, towards_ends
from isaaclab.envs.mdp.commands.commands_cfg import UniformVelocityCommandCfg
from isaaclab.envs.mdp.commands.velocity_command import UniformVelocityCommand as IsaacUniformVelocityCommand
from isaaclab.utils import configclass
from isaaclab.utils.math import wrap_to_pi
from torch import Tensor

from .compat import IsaacLabError, tensor
from .world import growth_of

DRAWN = ("vel_command_b", "time_left", "heading_target", "is_heading_env", "is_standing_env")
"""The tensors that a draw fills."""


class VelocityCommand(IsaacUniformVelocityCommand):
    """Isaac Lab's command without waits for the GPU.

    Isaac Lab checks in every step which timers have run out. Here commands are drawn ahead for every environment, and
    each environment takes its own when it is due. No timer runs out twice within the shortest
    ``resampling_time_range``, so one draw serves all steps of that time. After a restart of all environments
    the first such time needs no draw.

    Each linear axis is exactly zero in a share ``rel_zero_axis`` of the draws, a share ``rel_ends`` is at the ends of
    the ranges, and all are larger by ``margin``.
    """

    cfg: VelocityCommandCfg

    def __init__(self, cfg: VelocityCommandCfg, env: Any):
        super().__init__(cfg, env)
        self._ahead: dict[str, Tensor] = {}
        self._steps_left = 0

    def reset(self, env_ids: Any = None) -> dict[str, Any]:
        if env_ids is None or isinstance(env_ids, slice) or len(env_ids) == self.num_envs:
            self._ahead, self._steps_left = {}, self._steps_apart(self._env.step_dt) - 1
        return dict(super().reset(env_ids))

    def compute(self, dt: float) -> None:
        self._update_metrics()
        self.time_left -= dt
        if self._steps_left == 0:
            self._draw_ahead()
            self._steps_left = self._steps_apart(dt)
        self._steps_left -= 1
        if self._ahead:
            due = self.time_left <= 0.0
            for name, ahead in self._ahead.items():
                value = getattr(self, name)
                value.copy_(torch.where(due[:, None] if value.dim() == 2 else due, ahead, value))
            self.command_counter += due
        self._update_command()

    def _steps_apart(self, dt: float) -> int:
        """Lower bound of the number of steps between two expiries of a timer."""
        return max(1, int(self.cfg.resampling_time_range[0] / dt + 1e-6))

    def _draw_ahead(self) -> None:
        """Isaac Lab's own draw for every environment, into other tensors."""
        kept = {name: getattr(self, name) for name in (*DRAWN, "command_counter")}
        for name, value in kept.items():
            setattr(self, name, value.clone())
        self._resample(torch.arange(self.num_envs, device=self.device))
        self._ahead = {name: getattr(self, name) for name in DRAWN}
        for name, value in kept.items():
            setattr(self, name, value)

    def _resample_command(self, env_ids: Any) -> None:
        super()._resample_command(env_ids)
        cfg, command = self.cfg, self.vel_command_b[env_ids]  # 3.0 gives a slice where it draws for all
        if cfg.rel_zero_axis > 0.0:
            command[:, :2] *= torch.rand_like(command[:, :2]) >= cfg.rel_zero_axis
        if cfg.rel_ends > 0.0:
            ends = (cfg.ranges.lin_vel_x, cfg.ranges.lin_vel_y, cfg.ranges.ang_vel_z)
            ranges = torch.tensor(ends, device=command.device)
            random = torch.rand(5, len(command), device=command.device)
            command = towards_ends(command, ranges, cfg.rel_ends, random)
        if (level := growth_of(self._env)) is not None:
            random = torch.rand(len(command), device=command.device)
            command = grown(command, level, cfg.ranges.lin_vel_x[1], random)
        self.vel_command_b[env_ids] = (1.0 + cfg.margin) * command

    def _update_command(self) -> None:
        """Command update of 3.0; 2.3 searches for the environments that follow a heading or stand."""
        cfg, command = self.cfg, self.vel_command_b
        if cfg.heading_command:
            error = wrap_to_pi(self.heading_target - tensor(self.robot.data.heading_w))
            rate = (cfg.heading_control_stiffness * error).clamp(*cfg.ranges.ang_vel_z)
            command[:, 2] = torch.where(self.is_heading_env, rate, command[:, 2])
        command.masked_fill_(self.is_standing_env[:, None], 0.0)


@configclass
class VelocityCommandCfg(UniformVelocityCommandCfg):
    class_type: type = VelocityCommand
    rel_zero_axis: float = 0.0
    rel_ends: float = 0.0
    margin: float = 0.0


def command_cfg(command: Command) -> VelocityCommandCfg:
    """The values of ``command`` under Isaac Lab's names."""
    if not isinstance(command, UniformVelocityCommand):
        raise IsaacLabError(
            f"a command is a {type(command).__name__}: Isaac Lab draws UniformVelocityCommand only; use --world mujoco"
        )
    if command.ramp or command.settle:
        raise IsaacLabError(
            "a command has ramp or settle: in Isaac Lab commands jump, and robots are told to stand at once; leave "
            "them out, or use --world mujoco"
        )
    return VelocityCommandCfg(
        asset_name="robot",
        resampling_time_range=command.resampling_time_range,
        rel_standing_envs=command.rel_standing_envs,
        rel_heading_envs=command.rel_heading_envs,
        rel_zero_axis=command.rel_zero_axis,
        rel_ends=command.rel_ends,
        margin=command.margin,
        heading_command=command.heading_command,
        heading_control_stiffness=command.heading_control_stiffness,
        debug_vis=False,
        ranges=UniformVelocityCommandCfg.Ranges(
            lin_vel_x=command.lin_vel_x,
            lin_vel_y=command.lin_vel_y,
            ang_vel_z=command.ang_vel_z,
            heading=command.heading if command.heading_command else None,
        ),
    )
