"""Curriculum terms: ``func(world, env_ids, **params) -> float | Tensor`` that is logged."""

from typing import Protocol, cast

from torch import Tensor

from ..world import World


class TiledGround(Protocol):
    """A :class:`gaitway_tasks.ground.Ground` of tiles in rows of growing difficulty."""

    level: Tensor  # (N,), int64, row of the tile that each environment stands on
    tile_size: float  # [m]

    def origin(self, env_ids: Tensor) -> Tensor:
        """Middle of the tile that each environment stands on [m], (n, 3)."""
        ...

    def move(self, env_ids: Tensor, up: Tensor, down: Tensor) -> None:
        """Move ``env_ids`` (n,) one row up or down where the bool tensors ``up`` and ``down`` (n,) are true.

        No environment falls below row 0; one that passes the last row goes on in a row drawn at random.
        """
        ...


def terrain_levels_vel(world: World, env_ids: Tensor, command_name: str) -> Tensor:
    """Move environments up a terrain level after half a tile walked, down after half the commanded distance missed.

    Isaac Lab's rule. Returns the mean level of all environments.
    """
    ground = cast(TiledGround, world.ground)
    distance = (world.robot.root_pos_w[env_ids, :2] - ground.origin(env_ids)[:, :2]).norm(dim=1)
    commanded = world.command(command_name)[env_ids, :2].norm(dim=1) * world.max_episode_length * world.step_dt
    up = distance > ground.tile_size / 2
    down = (distance < commanded * 0.5) & ~up
    ground.move(env_ids, up, down)
    return ground.level.float().mean()
