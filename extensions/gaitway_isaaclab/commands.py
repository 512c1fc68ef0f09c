"""Velocity commands: Isaac Lab's, and a subclass for what only Gaitway's have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gaitway_tasks.spec import UniformVelocityCommand
from isaaclab.envs.mdp.commands.commands_cfg import UniformVelocityCommandCfg
from isaaclab.envs.mdp.commands.velocity_command import UniformVelocityCommand as IsaacUniformVelocityCommand
from isaaclab.utils import configclass


class ZeroAxisVelocityCommand(IsaacUniformVelocityCommand):
    """Isaac Lab's command in which each linear axis is exactly zero in a share ``rel_zero_axis`` of the draws."""

    cfg: ZeroAxisVelocityCommandCfg

    def _resample_command(self, env_ids: Sequence[int]) -> None:
        super()._resample_command(env_ids)
        drawn = self.vel_command_b[env_ids, :2]  # 3.0 gives a slice where it draws for all
        self.vel_command_b[env_ids, :2] = drawn * (torch.rand_like(drawn) >= self.cfg.rel_zero_axis)


@configclass
class ZeroAxisVelocityCommandCfg(UniformVelocityCommandCfg):
    class_type: type = ZeroAxisVelocityCommand
    rel_zero_axis: float = 0.0


def command_cfg(command: UniformVelocityCommand, debug_vis: bool) -> Any:
    """``UniformVelocityCommandCfg`` with the values of ``command``."""
    settings: dict[str, Any] = {
        "asset_name": "robot",
        "resampling_time_range": command.resampling_time_range,
        "rel_standing_envs": command.rel_standing_envs,
        "rel_heading_envs": command.rel_heading_envs,
        "heading_command": command.heading_command,
        "heading_control_stiffness": command.heading_control_stiffness,
        "debug_vis": debug_vis,
        "ranges": UniformVelocityCommandCfg.Ranges(
            lin_vel_x=command.lin_vel_x,
            lin_vel_y=command.lin_vel_y,
            ang_vel_z=command.ang_vel_z,
            heading=command.heading if command.heading_command else None,
        ),
    }
    if command.rel_zero_axis == 0.0:
        return UniformVelocityCommandCfg(**settings)
    return ZeroAxisVelocityCommandCfg(rel_zero_axis=command.rel_zero_axis, **settings)
