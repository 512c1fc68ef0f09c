"""Curriculum terms: ``func(world, env_ids, **params) -> float | Tensor`` that is logged."""

import torch
from torch import Tensor

from ..world import EditableWorld


def terrain_levels_vel(world: EditableWorld, env_ids: Tensor, command_name: str, terrain_size: float = 8.0) -> Tensor:
    """Move environments up a terrain level after half a tile walked, down after half the commanded distance missed.

    Isaac Lab's rule. Needs a world with terrain levels: ``terrain_level``, ``env_origins`` and ``max_terrain_level``.
    """
    distance = (world.robot.root_pos_w[env_ids, :2] - world.env_origins[env_ids, :2]).norm(dim=1)  # type: ignore[attr-defined]
    commanded = world.command(command_name)[env_ids, :2].norm(dim=1) * world.max_episode_length * world.step_dt
    up = distance > terrain_size / 2
    down = (distance < commanded * 0.5) & ~up
    level = world.terrain_level  # type: ignore[attr-defined]
    moved = level[env_ids] + up.long() - down.long()
    top = world.max_terrain_level  # type: ignore[attr-defined]
    redrawn = torch.randint(0, top, moved.shape, generator=world.generator, device=moved.device)
    level[env_ids] = torch.where(moved >= top, redrawn, moved.clamp(min=0))
    return level.float().mean()
