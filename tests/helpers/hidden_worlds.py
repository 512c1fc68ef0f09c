"""A tiny world whose critic sees a speed, which the actor can only tell from the last two places."""

from __future__ import annotations

from typing import Any

import torch
from box_spaces import boxes
from gaitway_agents.models.estimator import EstimatorColumns
from gaitway_agents.symmetry import Symmetry
from tiny_worlds import TinyWorld
from torch import Tensor

COLUMNS = EstimatorColumns(newest=(1,), signals={"speed": (1,), "unrelated": (0,)})
"""Of ``policy``, which is (place before, place), and of ``critic``, which is (noise, 4 speeds, place)."""
UNIT = 4.0
"""Numbers that the critic sees for a speed of 1."""


def starts(n: int, generator: torch.Generator) -> Tensor:
    place, speed, noise = torch.randn(3, n, generator=generator)
    return torch.stack((place - speed, place, speed, noise), 1)


def drift(state: Tensor, action: Tensor, age: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Good is to push the way that it drifts: only estimates tell an actor that sees the newest place which that is."""
    _, place, speed, noise = state.T
    reward = -(action[:, 0] - speed).square()
    return torch.stack((place, place + speed, speed, -noise), 1), reward, torch.zeros(len(state), dtype=torch.bool)


class HiddenSpeed(TinyWorld):
    """Episodes of 3 steps at a speed of their own."""

    def __init__(self, num_envs: int = 32, **settings: Any):
        super().__init__(starts, drift, time_limit=3, num_envs=num_envs, **settings)
        self.single_observation_space = boxes(policy=2, critic=3)

    def _observe(self, state: Tensor) -> dict[str, Tensor]:
        before, place, speed, noise = state.T
        return {"policy": torch.stack((before, place), 1), "critic": torch.stack((noise, UNIT * speed, place), 1)}


class SometimesInvalid(HiddenSpeed):
    """Every third row of each step does not count, and what is in it is nonsense."""

    def step(self, actions: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor, dict[str, Any]]:
        *outcome, info = super().step(actions)
        return (*outcome, info | {"valid": torch.arange(self.num_envs) % 3 > 0})


def left_and_right() -> Symmetry:
    """Places, speeds and actions change their signs together."""

    def table(*signs: float) -> tuple[Tensor, Tensor]:
        return torch.arange(len(signs)).expand(2, -1), torch.tensor([[1.0] * len(signs), signs])

    return Symmetry({"policy": table(-1.0, -1.0), "critic": table(1.0, -1.0, -1.0)}, table(-1.0), selectors=(1, 0))
