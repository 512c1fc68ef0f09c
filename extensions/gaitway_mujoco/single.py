"""One environment of a task behind ``gymnasium.Env``, for programs that know no vector environments."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gaitway_files.errors import UserError
from gaitway_tasks.spec import Task
from numpy.typing import NDArray

from .env import MujocoVectorEnv

Array = NDArray[np.float32]


class MujocoEnv(gym.Env[Array, Array]):
    """One robot: observations of the task's group "policy", float32 (D,), and actions in [-``action_limit``, it].

    A robot's action of 1 is 0.5 rad from the default pose in the tasks of Gaitway. Hundreds of robots that are stepped
    together are many times faster: ``gymnasium.make_vec``.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, task: Task, *, action_limit: float = 3.0, seed: int = 0, **kwargs: Any):
        if not action_limit > 0.0:
            raise UserError(f"action_limit={action_limit}: must be above 0")
        self._env = MujocoVectorEnv(task, 1, seed=seed, **{"num_threads": 1, **kwargs})
        groups: Any = self._env.single_observation_space
        self.observation_space = groups["policy"]
        shape = self._env.single_action_space.shape
        self.action_space = gym.spaces.Box(-action_limit, action_limit, shape, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        observation, _ = self._env.reset(seed=seed, options=options)
        return observation["policy"][0].numpy().copy(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """One control step. A finished episode's last observation is returned; ``reset`` starts the next."""
        observation, reward, terminated, truncated, info = self._env.step(torch.as_tensor(action)[None])
        ended = bool(terminated[0] | truncated[0])
        seen = info["final_obs"] if ended else observation
        return seen["policy"][0].numpy().copy(), float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}
