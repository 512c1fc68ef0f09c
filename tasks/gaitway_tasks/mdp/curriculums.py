"""Curriculum terms: ``func(world, env_ids, **params) -> float | Tensor`` that is logged."""

from typing import Any, Protocol, cast

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from ..stateful import StatefulTerm
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


class modify_reward_weight(StatefulTerm):
    """Weight of the reward ``term_name``: ``weight`` from ``num_steps`` control steps of the training on.

    Isaac Lab's. Returns the weight.
    """

    STATE = ("steps", "seen")

    def __init__(self, term: Any, world: World):
        self.steps = torch.zeros((), dtype=torch.int64, device=world.device)
        self.seen = torch.zeros(world.num_envs, dtype=torch.int64, device=world.device)
        """Steps of each episode at the last restart of any."""
        self.params, self.step_dt = term.params, world.step_dt
        if (name := term.params["term_name"]) not in world.reward_weights:
            raise UserError(
                f"modify_reward_weight: no reward {name!r} with a weight; {', '.join(world.reward_weights)}"
            )
        self.weight = world.reward_weights[name]

    def __call__(self, world: World, env_ids: Tensor, term_name: str, weight: float, num_steps: int) -> Tensor:
        self.steps.add_((world.episode_step - self.seen).amin().clamp(min=0))
        self.seen.copy_(world.episode_step)
        self.seen[env_ids] = 0
        self._apply()
        return self.weight / self.step_dt

    def _apply(self) -> None:
        wanted = torch.full_like(self.weight, self.params["weight"] * self.step_dt)
        self.weight.copy_(torch.where(self.steps > self.params["num_steps"], wanted, self.weight))

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self._apply()


class CommandGrowth(StatefulTerm):
    """Growth of velocity commands and of pushes with success, from 0 to 1 (:attr:`.World.growth`).

    The error of the planar velocity over the speed asked is measured in all environments that are told to go faster
    than ``least`` [m/s], at every restart of any, and smoothed over about a hundred control steps. While it is below
    ``share``, the level rises, from 0 to 1 in ``steps`` control steps. It never falls. Returns the level. Once it is 1,
    the level of what is paid with a ``start`` rises in ``then`` control steps (:attr:`.World.style`).
    """

    STATE = ("level", "style", "error", "seen")

    def __init__(self, term: Any, world: World):
        self.level, self.error = torch.zeros((), device=world.device), torch.ones((), device=world.device)
        self.seen = torch.zeros(world.num_envs, dtype=torch.int64, device=world.device)
        """Steps of each episode at the last restart of any."""
        self.style = torch.zeros((), device=world.device)
        world.growth, world.style = self.level, self.style

    def __call__(
        self,
        world: World,
        env_ids: Tensor,
        command_name: str,
        share: float,
        steps: int,
        least: float = 0.3,
        then: int = 1,
    ) -> Tensor:
        passed = (world.episode_step - self.seen).amin().clamp(min=0)
        self.seen.copy_(world.episode_step)
        self.seen[env_ids] = 0
        told = world.command(command_name)[:, :2]
        asked = told.norm(dim=1)
        asked = asked * (asked > least)
        missing = (told - world.robot.root_lin_vel_b[:, :2]).norm(dim=1) * (asked > 0.0)
        error = torch.where(asked.any(), missing.sum() / asked.sum().clamp(min=1e-6), self.error)
        self.error.lerp_(error, 1.0 - 0.99**passed)
        self.style.add_(passed / then * (self.level >= 1.0)).clamp_(max=1.0)
        self.level.add_(passed / steps * (self.error < share)).clamp_(max=1.0)
        return self.level.clone()


def ungrown(task: Any) -> Any:
    """``task`` whose commands and pushes have their full size from the start."""
    kept = {name: term for name, term in task.curriculum.items() if term.func is not CommandGrowth}
    return task if len(kept) == len(task.curriculum) else task.replace(curriculum=kept)
