"""Prioritised experience replay (Schaul et al. 2016, the proportional variant)."""

from __future__ import annotations

from typing import Any

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from .replay import ReplayBuffer, Transitions

EPSILON = 1e-6
"""Added to errors, so that every transition keeps a chance."""


class PrioritizedReplayBuffer(ReplayBuffer):
    """Draws transitions in proportion to (|error| + epsilon)^alpha; new ones have the largest priority so far.

    A batch is drawn from equal strata. Its importance weights are (1 / P)^beta over the largest in the batch.
    """

    def __init__(
        self, capacity: int, num_envs: int, *, gamma: float, n_step: int = 1, seed: int = 0, alpha: float, beta: float
    ):
        super().__init__(capacity, num_envs, gamma=gamma, n_step=n_step, seed=seed)
        self.alpha, self.beta = alpha, beta
        self.priorities = torch.zeros(self.slots * num_envs, dtype=torch.float64)
        self.largest = torch.ones((), dtype=torch.float64)
        self._changed: list[int] = []

    def add(self, *step: Any, **more: Any) -> None:
        self._changed.append(self.cursor)
        super().add(*step, **more)

    def _forget_oldest(self) -> int:
        slot = super()._forget_oldest()
        self._changed.append(slot)
        return slot

    def sample(self, count: int) -> Transitions:
        if not len(self):
            raise UserError("nothing to draw: the replay buffer is empty")
        self._set_changed()
        strata = torch.arange(count, dtype=torch.float64)
        offsets = torch.rand(count, dtype=torch.float64, generator=self.generator)
        rows = find(self.priorities, (strata + offsets) / count)
        priorities = self.priorities[rows]
        weights = (priorities.min() / priorities) ** self.beta
        return self._read(rows, weights.to(self.rewards.dtype))

    def update(self, rows: Tensor, errors: Tensor) -> None:
        """New priorities from the temporal-difference ``errors`` (K,) of transitions ``rows`` (K,)."""
        self._set_changed()
        sizes = errors.abs().double() + EPSILON
        self.largest = torch.maximum(self.largest, sizes.max())
        self.priorities[rows] = sizes**self.alpha

    def _set_changed(self) -> None:
        """Priorities of the slots written or forgotten since the last draw."""
        if not self._changed:
            return
        slots = torch.tensor(sorted(set(self._changed)))
        self._changed.clear()
        rows = (slots[:, None] * self.num_envs + torch.arange(self.num_envs)).flatten()
        age = (self.cursor - 1 - slots) % self.slots
        there = (age < self.filled).repeat_interleave(self.num_envs) & self.valid[rows]
        self.priorities[rows] = there * self.largest**self.alpha

    def state_dict(self) -> dict[str, Any]:
        self._set_changed()
        state = super().state_dict()
        return state | {"priorities": self.priorities[: len(state["rewards"])].clone(), "largest": self.largest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.largest = state["largest"].clone()
        self._changed.clear()
        self.priorities[: len(state["priorities"])] = state["priorities"]


def find(weights: Tensor, shares: Tensor) -> Tensor:
    """Rows (K,) in whose part of the cumulative ``weights`` (R,) the ``shares`` (K,), in [0, 1], lie.

    A row of weight 0 is never among them.
    """
    sums = weights.cumsum(0)
    # Rounding may leave a point on the last sum, beyond which nothing lies.
    points = torch.minimum(shares * sums[-1], sums[-1].nextafter(torch.zeros_like(sums[-1])))
    return torch.searchsorted(sums, points, right=True)
