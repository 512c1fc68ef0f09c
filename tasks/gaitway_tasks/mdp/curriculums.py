"""Curriculum terms: ``func(world, env_ids, **params) -> float | Tensor`` that is logged."""

from typing import Protocol

from torch import Tensor

from ..world import World


class TerrainWorld(World, Protocol):
    """A world whose ground consists of tiles in rows of growing difficulty."""

    env_origins: Tensor  # [m], (N, 3), middle of the tile that each environment stands on
    terrain_level: Tensor  # (N,), int64, row of that tile
    terrain_tile_size: float  # [m]

    def move_terrain_level(self, env_ids: Tensor, up: Tensor, down: Tensor) -> None:
        """Move ``env_ids`` (n,) one row up or down where the bool tensors ``up`` and ``down`` (n,) are true.

        No environment falls below row 0; one that passes the last row goes on in a row drawn at random.
        """
        ...


def terrain_levels_vel(world: TerrainWorld, env_ids: Tensor, command_name: str) -> Tensor:
    """Move environments up a terrain level after half a tile walked, down after half the commanded distance missed.

    Isaac Lab's rule. Returns the mean level of all environments.
    """
    distance = (world.robot.root_pos_w[env_ids, :2] - world.env_origins[env_ids, :2]).norm(dim=1)
    commanded = world.command(command_name)[env_ids, :2].norm(dim=1) * world.max_episode_length * world.step_dt
    up = distance > world.terrain_tile_size / 2
    down = (distance < commanded * 0.5) & ~up
    world.move_terrain_level(env_ids, up, down)
    return world.terrain_level.float().mean()
