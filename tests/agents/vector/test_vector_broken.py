"""Environments that break the contract are stopped at the first bad step, and told apart by name and number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from counting import StubbornCounting
from gaitway_agents.vector.adapt import BrokenEnvironmentError, adapt
from gymnasium.vector import AutoresetMode, VectorEnv


def still(env: VectorEnv) -> torch.Tensor:
    return torch.zeros(env.action_space.shape)


class Broken(StubbornCounting):
    """Returns ``spoilt`` in place of result number ``place`` in its third step."""

    def __init__(self, place: int, spoilt: Any, mode: AutoresetMode = AutoresetMode.SAME_STEP):
        super().__init__([9, 9, 9], [False] * 3)
        self.metadata = {"autoreset_mode": mode}
        self.place, self.spoilt = place, spoilt

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        result = list(super().step(actions))
        if self.age[0] == 3:
            result[self.place] = self.spoilt
        return tuple(result)


@pytest.mark.parametrize(
    ("place", "spoilt", "message"),
    [
        (0, np.array([[1], [np.nan], [2]], np.float32), r"'policy' of environment 1 is nan at index \(0,\)"),
        (0, np.array([[1], [2], [np.inf]], np.float32), "observation 'policy' of environment 2 is inf"),
        (0, np.zeros((3, 2), np.float32), r"observation 'policy' has shape \(3, 2\).*\(3, 1\)"),
        (0, np.zeros((3, 1), complex), "observation 'policy' has dtype complex128"),
        (1, np.array([0.0, 0.0, np.nan]), "reward of environment 2 is nan"),
        (1, np.array([-np.inf, 0.0, 0.0]), "reward of environment 0 is -inf"),
        (1, np.zeros((3, 1)), r"reward is float64 of shape \(3, 1\)"),
        (1, 0.0, "reward is .*float"),
        (2, np.zeros(3), "terminated is float64"),
        (3, np.zeros(2, bool), r"truncated is bool of shape \(2,\)"),
        (2, np.array([False, True, False]), "episode of environment 1 ended, but .*final_obs"),
        (3, np.array([False, False, True]), "episode of environment 2 ended, but .*final_obs"),
    ],
)  # fmt: skip
def test_the_first_bad_step_stops(place, spoilt, message):
    env = adapt(Broken(place, spoilt))
    env.reset(seed=0)
    for _ in range(2):
        env.step(still(env))
    with pytest.raises(BrokenEnvironmentError, match=f"{message}.*step 3 of"):
        env.step(still(env))


def test_final_observations_are_checked_too():
    class Bad(Broken):
        def step(self, actions: np.ndarray) -> tuple[Any, ...]:
            observation, reward, _, _, _ = super().step(actions)
            over = np.array([False, True, True])
            return observation, reward, over, over & False, {"final_obs": self.finals, "_final_obs": self.given}

    env = Bad(0, None)
    env.finals, env.given = np.array([[np.nan], [1], [2]], np.float32), np.array([True, True, True])
    adapted = adapt(env)
    adapted.reset(seed=0)
    adapted.step(still(adapted))  # the row that is not a final observation may be anything
    env.finals[2] = np.inf
    with pytest.raises(BrokenEnvironmentError, match="final observation 'policy' of environment 2 is inf"):
        adapted.step(still(adapted))
    env.finals, env.given = np.zeros((3, 1), np.float32), np.array([True, True, False])
    env.age[:] = 5
    with pytest.raises(BrokenEnvironmentError, match="environment 2 ended"):
        adapted.step(still(adapted))
