"""Gymnasium's vector API over a MuJoCo world, in torch."""

from __future__ import annotations

import numbers
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gaitway_files.errors import UserError
from gaitway_tasks.episodes import Episodes, Observation
from gaitway_tasks.math import all_finite
from gaitway_tasks.spec import Task
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from .model import PhysicsOptions
from .world import MujocoWorld


class MujocoVectorEnv(VectorEnv):
    """``num_envs`` copies of a task, stepped together.

    Observations are a dictionary of the task's groups, each float32 (N, D). Finished episodes restart within the
    step that ends them (``AutoresetMode.SAME_STEP``): ``info["final_obs"]`` then holds the final observations of
    the ended episodes, valid in the rows of ``info["_final_obs"]``, and ``info["log"]`` scalars for plots.

    ``info["ended"]`` are the indices (K,) of the environments that ended. Where any did, ``info["episode"]`` has the
    return ``r`` and the length ``l`` of their episodes, (N,), valid in the rows of ``info["_episode"]``.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(
        self, task: Task, num_envs: int, *, seed: int = 0, num_threads: int = 0, options: PhysicsOptions | None = None
    ):
        if num_envs < 1:
            raise UserError(f"num_envs {num_envs}: at least one environment is needed")
        self.task, self.num_envs = task, num_envs
        self.generator = torch.Generator().manual_seed(seed)
        self.world = MujocoWorld(task, num_envs, self.generator, options or PhysicsOptions(), num_threads)
        self.episodes = Episodes(task, self.world, self.generator)
        self.managers = self.episodes.managers

        self.single_observation_space = gym.spaces.Dict(
            {name: _box(group.dim) for name, group in self.managers.observations.items()}
        )
        self.single_action_space = _box(task.actions.num(task.robot))
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)

    @property
    def device(self) -> torch.device:
        return self.world.device

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict]:
        """Restart every environment.

        ``options={"random_episode_step": True}`` starts each episode at a random age, so that time-outs do not
        come all at once.
        """
        if seed is not None and not isinstance(seed, numbers.Integral):
            raise UserError(f"seed={seed!r}: give one number, from which all {self.num_envs} environments draw")
        return self.episodes.reset(seed=seed, random_ages=(options or {}).get("random_episode_step", False)), {}

    def step(self, actions: Tensor) -> tuple[Observation, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Advance one control step with raw policy outputs ``actions`` (N, A), float32."""
        if not self.episodes.started:
            raise gym.error.ResetNeeded("step() before reset(): call env.reset() first")
        actions = torch.as_tensor(actions, dtype=torch.float32).detach()
        if actions.shape != self.action_space.shape:  # torch would quietly broadcast one row to all environments
            raise UserError(
                f"actions have shape {tuple(actions.shape)}, this environment takes {self.action_space.shape}"
            )
        if not all_finite(actions):
            row = int((~actions.isfinite()).nonzero()[0, 0])
            raise UserError(f"the action for environment {row} is {actions[row].tolist()}: the policy is broken")
        return self.episodes.step(actions)

    def state_dict(self) -> dict[str, Any]:
        """Complete state of the environment, for a checkpoint."""
        return self.episodes.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.episodes.load_state_dict(state)


def _box(dim: int) -> gym.spaces.Box:
    return gym.spaces.Box(-np.inf, np.inf, (dim,), np.float32)
