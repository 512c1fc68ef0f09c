"""Environments whose observation is the number of steps since the start: everything about them can be counted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space


class Counting(gymnasium.Env[np.ndarray, np.ndarray]):
    """Reward 1 in every step; after ``length`` steps the episode is truncated, or terminated if ``dies``.

    ``spoil`` may replace what a step returns, given (age, result).
    """

    def __init__(self, length: int, dies: bool = False, spoil: Any = None):
        self.length, self.dies, self.spoil, self.age = length, dies, spoil, 0
        self.observation_space = gymnasium.spaces.Box(0.0, np.inf, (1,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.age = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        assert np.all(np.abs(action) <= 1.0), "actions are to be clipped to their bounds"
        self.age += 1
        over = self.age == self.length
        result = (np.full(1, self.age, np.float32), 1.0, over and self.dies, over and not self.dies, {})
        return self.spoil(self.age, result) if self.spoil else result


class StubbornCounting(VectorEnv):
    """Many of the same with NEXT_STEP autoreset that cannot be reset one by one."""

    def __init__(self, lengths: Sequence[int], dies: Sequence[bool]):
        self.num_envs, self.lengths, self.dies = len(lengths), np.array(lengths), np.array(dies)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        single = Counting(1)
        self.single_observation_space, self.single_action_space = single.observation_space, single.action_space
        self.observation_space = batch_space(single.observation_space, self.num_envs)
        self.action_space = batch_space(single.action_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.age = np.zeros(self.num_envs, np.int64)
        return self.age[:, None].astype(np.float32), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        restarts = self.age == self.lengths
        self.age = np.where(restarts, 0, self.age + 1)
        over = self.age == self.lengths
        reward = 1.0 - restarts
        return self.age[:, None].astype(np.float32), reward, over & self.dies, over & ~self.dies, {}


def counting(kind: str, lengths: Sequence[int], dies: Sequence[bool]) -> VectorEnv:
    """``kind`` is "sync same-step", "async disabled" and so on, or "stubborn"."""
    if kind == "stubborn":
        return StubbornCounting(lengths, dies)
    vectorization, mode = kind.split()
    vector: Any = {"sync": SyncVectorEnv, "async": AsyncVectorEnv}[vectorization]
    modes = {"same-step": AutoresetMode.SAME_STEP, "next-step": AutoresetMode.NEXT_STEP}
    makers = [partial(Counting, length, dead) for length, dead in zip(lengths, dies, strict=True)]
    return vector(makers, autoreset_mode=modes.get(mode, AutoresetMode.DISABLED))


KINDS = ("sync same-step", "sync next-step", "sync disabled", "stubborn")
SLOW_KINDS = ("async same-step", "async next-step", "async disabled")
