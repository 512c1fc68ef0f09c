"""Gymnasium's vector API over the worlds of a MuJoCo model, in torch."""

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
from gaitway_tasks.waits import on_host
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from .model import PhysicsOptions
from .world import MujocoWorld


class ModelVectorEnv(VectorEnv):
    """The environments of ``world``, a :class:`gaitway_mujoco.shared.ModelWorld`, stepped together.

    Observations are a dictionary of the task's groups, each float32 (N, D). Finished episodes restart within the
    step that ends them (``AutoresetMode.SAME_STEP``): ``info["final_obs"]`` then holds the final observations of
    the ended episodes, valid in the rows of ``info["_final_obs"]``, and ``info["log"]`` scalars for plots.

    ``info["ended"]`` are the indices (K,) of the environments that ended. Where any did, ``info["episode"]`` has the
    return ``r`` and the length ``l`` of their episodes, (N,), valid in the rows of ``info["_episode"]``.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(self, world: Any):
        self.task, self.num_envs, self.generator = world.task, world.num_envs, world.generator
        self.world = world
        task, num_envs = self.task, self.num_envs
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
        actions = torch.as_tensor(actions, dtype=torch.float32, device=self.device).detach()
        if actions.shape != self.action_space.shape:  # torch would quietly broadcast one row to all environments
            raise UserError(
                f"actions have shape {tuple(actions.shape)}, this environment takes {self.action_space.shape}"
            )
        if not (on_host(actions) and all_finite(actions)):
            self.world.refuse(~actions.isfinite(), lambda: _broken(actions))
        return self.episodes.step(actions)

    def state_dict(self) -> dict[str, Any]:
        """Complete state of the environment, for a checkpoint."""
        return self.episodes.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.episodes.load_state_dict(state)


class MujocoVectorEnv(ModelVectorEnv):
    """``num_envs`` copies of a task on a CPU."""

    def __init__(
        self, task: Task, num_envs: int, *, seed: int = 0, num_threads: int = 0, options: PhysicsOptions | None = None
    ):
        check_count(num_envs)
        generator = torch.Generator().manual_seed(seed)
        super().__init__(MujocoWorld(task, num_envs, generator, options or PhysicsOptions(), num_threads))


def check_count(num_envs: int) -> None:
    """Refuse less than one environment."""
    if num_envs < 1:
        raise UserError(f"num_envs {num_envs}: at least one environment is needed")


def _broken(actions: Tensor) -> str:
    row = int((~actions.isfinite()).nonzero()[0, 0])
    return f"the action for environment {row} is {actions[row].tolist()}: the policy is broken"


def _box(dim: int) -> gym.spaces.Box:
    return gym.spaces.Box(-np.inf, np.inf, (dim,), np.float32)
