"""Multi-armed bandits as vector environments: one decision, over and over, and nothing to see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gaitway_files.errors import UserError
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor


class _Bandit(VectorEnv):
    """``num_envs`` copies of one bandit. A bandit knows no end: after ``horizon`` pulls an episode is truncated.

    There is nothing to see: the observation "policy" is (N, 1) zeros. ``info["regret"]`` (N,) is what the pulled arm
    pays less than the best one on average.
    """

    def __init__(self, means: Sequence[float], num_envs: int, horizon: int, seed: int):
        if len(means) < 2 or num_envs < 1 or horizon < 1:
            raise UserError(
                f"{len(means)} arms, num_envs {num_envs}, horizon {horizon}: at least 2 arms, 1 environment and 1 pull"
            )
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.device = torch.device("cpu")
        self.means, self.num_envs, self.horizon = torch.tensor(list(means), dtype=torch.float64), num_envs, horizon
        self.single_observation_space = spaces.Dict({"policy": spaces.Box(0.0, 0.0, (1,))})
        self.single_action_space = spaces.Discrete(len(means))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.generator = torch.Generator().manual_seed(seed)
        self.age = torch.zeros(num_envs, dtype=torch.int64)
        self.returns = torch.zeros(num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Tensor], dict[str, Any]]:
        if seed is not None:
            self.generator.manual_seed(seed)
        self.age, self.returns = torch.zeros_like(self.age), torch.zeros_like(self.returns)
        return self._observe(), {}

    def step(self, actions: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor, dict[str, Any]]:
        if actions.shape != (self.num_envs,) or bool(((actions < 0) | (actions >= len(self.means))).any()):
            raise UserError(
                f"actions {actions}: {self.num_envs} arms are needed, numbered from 0 to {len(self.means) - 1}"
            )
        means = self.means[actions]
        reward = self._draw(means).float()
        self.age, self.returns = self.age + 1, self.returns + reward
        truncated = self.age >= self.horizon
        info: dict[str, Any] = {"regret": self.means.max() - means}
        if bool(truncated.any()):
            info |= {"final_obs": self._observe(), "_final_obs": truncated}
            info |= {"episode": {"r": self.returns, "l": self.age}, "_episode": truncated}
            info["ended"] = truncated.nonzero().flatten()
            self.age, self.returns = self.age * ~truncated, self.returns * ~truncated
        return self._observe(), reward, torch.zeros_like(truncated), truncated, info

    def _draw(self, means: Tensor) -> Tensor:
        """Rewards of arms with these means."""
        raise NotImplementedError

    def _observe(self) -> dict[str, Tensor]:
        return {"policy": torch.zeros(self.num_envs, 1)}

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state(), "age": self.age.clone(), "returns": self.returns.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])
        self.age, self.returns = state["age"].clone(), state["returns"].clone()


class BernoulliBandit(_Bandit):
    """Arm k pays 1 with probability ``means[k]``, else 0."""

    def __init__(self, means: Sequence[float], num_envs: int = 1, *, horizon: int = 1000, seed: int = 0):
        bad = next((mean for mean in means if not 0.0 <= mean <= 1.0), None)
        if bad is not None:
            raise UserError(f"means {list(means)}: {bad} is no probability; use GaussianBandit for other rewards")
        super().__init__(means, num_envs, horizon, seed)

    def _draw(self, means: Tensor) -> Tensor:
        return torch.rand(means.shape, generator=self.generator, dtype=means.dtype) < means


class GaussianBandit(_Bandit):
    """Arm k pays ``means[k]`` and normal noise of standard deviation ``noise``."""

    def __init__(
        self, means: Sequence[float], num_envs: int = 1, *, noise: float = 1.0, horizon: int = 1000, seed: int = 0
    ):
        if noise < 0.0:
            raise UserError(f"noise {noise}: a standard deviation must not be negative")
        super().__init__(means, num_envs, horizon, seed)
        self.noise = noise

    def _draw(self, means: Tensor) -> Tensor:
        return means + self.noise * torch.randn(means.shape, generator=self.generator, dtype=means.dtype)
