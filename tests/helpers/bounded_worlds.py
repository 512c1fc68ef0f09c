"""Tiny worlds whose actions are choices, or numbers between bounds."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from tiny_worlds import TinyWorld
from torch import Tensor


class Choices(TinyWorld):
    """The rule sees the number of the choice; ``forbidden`` (A,) are masked out where the observation is negative."""

    def __init__(self, *args: Any, actions: int = 2, forbidden: list[bool] | None = None, **settings: Any):
        super().__init__(*args, **settings)
        self.single_action_space = gymnasium.spaces.Discrete(actions)
        self.forbidden = None if forbidden is None else torch.tensor(forbidden)
        if forbidden is not None:
            space = dict(self.single_observation_space.spaces)
            space["action_mask"] = gymnasium.spaces.MultiBinary(actions)
            self.single_observation_space = gymnasium.spaces.Dict(space)

    def step(self, actions: Tensor):
        assert actions.shape == (self.num_envs,)
        assert actions.dtype == torch.int64
        if self.forbidden is not None:
            assert self._observe(self.state)["action_mask"].gather(1, actions[:, None]).all()
        return super().step(actions[:, None].float())

    def _observe(self, state: Tensor) -> dict[str, Tensor]:
        observed = super()._observe(state)
        if self.forbidden is not None:
            observed["action_mask"] = ~((state[:, :1] < 0.0) & self.forbidden)
        return observed


class Bounded(TinyWorld):
    """Actions between ``low`` and ``high``; those beyond are an error."""

    def __init__(self, *args: Any, low: list[float], high: list[float], **settings: Any):
        super().__init__(*args, **settings)
        self.low, self.high = torch.tensor(low), torch.tensor(high)
        self.single_action_space = gymnasium.spaces.Box(np.float32(low), np.float32(high))

    def step(self, actions: Tensor):
        assert actions.shape == (self.num_envs, len(self.low))
        assert ((actions >= self.low) & (actions <= self.high)).all()
        return super().step(actions)
