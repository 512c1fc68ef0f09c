"""A whole algorithm in one file: it tosses a coin, whatever it sees."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from gaitway_agents.trainer import Episode, Observation, episodes_from
from gymnasium.vector import VectorEnv
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class CoinConfig:
    bias: float = 0.5
    """Probability of action 1."""


class CoinTrainer:
    def __init__(self, env: VectorEnv, config: CoinConfig, *, seed: int, total_steps: int):
        self.env, self.config = env, config
        self.generator, self.steps = torch.Generator().manual_seed(seed), 0
        self.episodes: list[Episode] = []
        self.env.reset(seed=seed)

    def toss(self, n: int) -> Tensor:
        return (torch.rand(n, generator=self.generator) < self.config.bias).long()

    def iterate(self) -> dict[str, float]:
        start = time.perf_counter()
        _, reward, _, _, info = self.env.step(self.toss(self.env.num_envs))
        self.steps += self.env.num_envs
        self.episodes += episodes_from(info, self.steps)
        return {"rollout/reward": float(reward.mean()), "time/total": time.perf_counter() - start}

    def pop_episodes(self) -> list[Episode]:
        episodes, self.episodes = self.episodes, []
        return episodes

    def initial_memory(self, num_envs: int) -> Observation:
        return {}

    def predict(self, observations: Observation) -> tuple[Tensor, Observation]:
        return self.toss(len(observations["policy"])), {}

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]
        self.generator.set_state(state["generator"])
        self.env.reset(seed=self.steps)

    def load_policy(self, state: dict[str, Any]) -> None:
        pass
