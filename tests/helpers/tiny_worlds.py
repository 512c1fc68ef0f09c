"""Vector environments of a few lines, in torch: what happens in them can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

First = Callable[[int, torch.Generator], Tensor]
"""Number of episodes to start -> their first states (n, S)."""
Rule = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
"""State (N, S), action (N, A), age [steps] (N,) -> next state (N, S), reward (N,), terminated (N,)."""


class TinyWorld(VectorEnv):
    """Episodes that begin at ``first``, follow ``rule`` and are truncated after ``time_limit`` steps.

    The first ``observation_dim`` numbers of the state are observed.
    """

    def __init__(
        self,
        first: First,
        rule: Rule,
        *,
        time_limit: int | None = None,
        num_envs: int = 64,
        observation_dim: int = 1,
        action_dim: int = 1,
        seed: int = 0,
    ):
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.first, self.rule, self.time_limit, self.num_envs = first, rule, time_limit, num_envs
        box = gymnasium.spaces.Box(-np.inf, np.inf, (observation_dim,))
        self.single_observation_space = gymnasium.spaces.Dict({"policy": box})
        self.single_action_space = gymnasium.spaces.Box(-np.inf, np.inf, (action_dim,))
        self.generator = torch.Generator().manual_seed(seed)
        self.observation_dim, self.state = observation_dim, torch.zeros(num_envs, 0)
        self.age = torch.zeros(num_envs, dtype=torch.int64)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self.state = self.first(self.num_envs, self.generator)
        self.age = torch.zeros_like(self.age)
        if self.time_limit and (options or {}).get("random_episode_step"):
            self.age = torch.randint(self.time_limit, self.age.shape, generator=self.generator)
        return self._observe(self.state), {}

    def step(self, actions: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor, dict[str, Any]]:
        state, reward, terminated = self.rule(self.state, actions, self.age)
        self.age += 1
        truncated = self.age >= (self.time_limit or torch.inf)
        done = terminated | truncated
        info = {"final_obs": self._observe(state), "_final_obs": done}
        self.state = state.clone()
        self.state[done] = self.first(int(done.sum()), self.generator)
        self.age[done] = 0
        return self._observe(self.state), reward, terminated, truncated, info

    def _observe(self, state: Tensor) -> dict[str, Tensor]:
        return {"policy": state[:, : self.observation_dim].clone()}

    def state_dict(self) -> dict[str, Tensor]:
        return {"state": self.state.clone(), "age": self.age.clone(), "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.state, self.age = state["state"].clone(), state["age"].clone()
        self.generator.set_state(state["generator"])


def zeros(n: int, generator: torch.Generator) -> Tensor:
    return torch.zeros(n, 1)


def signs(n: int, generator: torch.Generator) -> Tensor:
    """-1 or 1, a fair coin each."""
    return 2.0 * torch.randint(2, (n, 1), generator=generator) - 1.0


def never(n: int) -> Tensor:
    return torch.zeros(n, dtype=torch.bool)


def always(n: int) -> Tensor:
    return torch.ones(n, dtype=torch.bool)
