"""Evaluations: which episodes they count, and that each of them ends."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from counting import StubbornCounting, counting
from gaitway_agents.trainer import Episode, evaluate
from gaitway_agents.vector.adapt import adapt
from gymnasium.vector import VectorEnv
from torch import Tensor


class Still:
    """A policy that does nothing."""

    def initial_memory(self, num_envs: int) -> dict[str, Tensor]:
        return {}

    def predict(self, observations: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return torch.zeros(len(observations["policy"]), 1), {}


def played(env: VectorEnv, episodes: int, **settings: Any) -> list[tuple[float, int, bool]]:
    found: list[Episode] = evaluate(Still(), adapt(env), episodes, seed=0, **settings)
    return [(episode.ret, episode.length, episode.cut) for episode in found]


@pytest.mark.parametrize("kind", ["sync same-step", "stubborn"])
def test_an_episode_that_does_not_end_is_cut(kind):
    """The second environment plays on after its cut: what ends there later does not count."""
    env = counting(kind, [3, 50], [True, True])
    assert played(env, 40, longest=20) == [(3.0, 3, False), (20.0, 20, True), *[(3.0, 3, False)] * 19]


def test_a_limit_that_episodes_keep_cuts_none():
    assert played(StubbornCounting([4, 20], [False, False]), 4, longest=20) == [(4.0, 4, False), (20.0, 20, False)] * 2
