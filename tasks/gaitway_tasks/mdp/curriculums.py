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


def terrain_levels_vel(
    world: World, env_ids: Tensor, command_name: str, reach: float = 0.5, least: float = 0.5, falls: bool = False
) -> Tensor:
    """Move environments up a terrain level after ``reach`` of a tile, down after less than ``least`` of the command.

    Distances are from the middle of the tile to where the episode ended; a command is worth the way that the last one
    is in a whole episode. As it is, this is Isaac Lab's rule. With ``falls`` who fell does not move up. Returns the
    mean level of all environments.
    """
    ground = cast(TiledGround, world.ground)
    distance = (world.robot.root_pos_w[env_ids, :2] - ground.origin(env_ids)[:, :2]).norm(dim=1)
    commanded = world.command(command_name)[env_ids, :2].norm(dim=1) * world.max_episode_length * world.step_dt
    up, down = distance > ground.tile_size * reach, distance < commanded * least
    if falls:
        up = up & ~world.terminated[env_ids]
    down = down & ~up
    ground.move(env_ids, up, down)
    return ground.level.float().mean()
