"""Finite worlds that are written down outcome by outcome."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gaitway_agents.vector.adapt import adapt
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import TimeLimit

Table = dict[int, dict[int, list[tuple[float, int, float, bool]]]]


class TableEnv(gymnasium.Env):
    """Environment of a ``table``, beginning in a random one of the states ``first``."""

    def __init__(self, table: Table, first: list[int]):
        self.P, self.first = table, first
        self.initial_state_distrib = np.bincount(first, minlength=len(table)) / len(first)
        self.observation_space = gymnasium.spaces.Discrete(len(table))
        self.action_space = gymnasium.spaces.Discrete(len(table[0]))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self.first[int(self.np_random.random() * len(self.first))]
        return self.state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        outcomes = self.P[self.state][int(action)]
        cumulative = accumulate(outcome[0] for outcome in outcomes)
        draw = self.np_random.random()
        pick = next((i for i, p in enumerate(cumulative) if draw < p), len(outcomes) - 1)
        _, self.state, reward, terminated = outcomes[pick]
        return self.state, float(reward), terminated, False, {}


def seeded(env: VectorEnv) -> VectorEnv:
    env.reset(seed=0)
    return env


@pytest.fixture
def table_envs() -> Callable[..., VectorEnv]:
    """Builder of adapted vector environments from a table."""

    def build(
        table: Table,
        first: list[int] | Callable[[int], list[int]],
        *,
        num_envs: int = 4,
        time_limit: int | None = None,
        kind: type[SyncVectorEnv] = SyncVectorEnv,
    ) -> VectorEnv:
        def one(i: int) -> gymnasium.Env:
            env = TableEnv(table, first(i) if callable(first) else first)
            return TimeLimit(env, time_limit) if time_limit else env

        return seeded(adapt(kind([lambda i=i: one(i) for i in range(num_envs)])))

    return build


@pytest.fixture
def gym_envs() -> Callable[..., VectorEnv]:
    """Builder of adapted vector environments from a Gymnasium id."""

    def build(name: str, num_envs: int = 2, **options: Any) -> VectorEnv:
        options |= {"vectorization_mode": "sync", "disable_env_checker": True}
        return seeded(adapt(gymnasium.make_vec(name, num_envs=num_envs, **options)))

    return build


class Corridor(VectorEnv):
    """States 0 to 4 in torch: action 1 goes right with probability 0.9, else left; 1 is paid at the end."""

    def __init__(self, num_envs: int = 3):
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.num_envs, self.device = num_envs, torch.device("cpu")
        self.single_observation_space = gymnasium.spaces.Dict({"policy": gymnasium.spaces.Discrete(5, start=10)})
        self.single_action_space = gymnasium.spaces.Discrete(2, start=3)
        self.generator = torch.Generator()
        self.state = torch.zeros(num_envs, dtype=torch.int64)

    def _observe(self, state: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"policy": state + 10}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, torch.Tensor], dict]:
        if seed is not None:
            self.generator.manual_seed(seed)
        self.state = torch.zeros(self.num_envs, dtype=torch.int64)
        return self._observe(self.state), {}

    def step(self, actions: torch.Tensor) -> tuple[Any, ...]:
        assert bool(((actions == 3) | (actions == 4)).all())
        right = (actions == 4) & (torch.rand(self.num_envs, generator=self.generator) < 0.9)
        self.state = (self.state + 2 * right.long() - 1).clamp(min=0)
        terminated = self.state == 4
        info = {"final_obs": self._observe(self.state), "_final_obs": terminated}
        self.state = self.state * ~terminated
        return self._observe(self.state), terminated.float(), terminated, torch.zeros_like(terminated), info

    def state_dict(self) -> dict[str, Any]:
        return {"state": self.state.clone(), "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = state["state"].clone()
        self.generator.set_state(state["generator"])


@pytest.fixture
def corridor() -> type[Corridor]:
    return Corridor
