"""Prioritised experience replay (Schaul et al. 2016, the proportional variant)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ..trainer import Observation
from .replay import ReplayBuffer, Transitions

EPSILON = 1e-6
"""Added to errors, so that every transition keeps a chance."""
FAN_OUT = 128
"""Children of a node: a million leaves are three levels, each a few operations whatever the batch."""


class SumTree:
    """Weights of ``size`` leaves and the sums above them, in float64; draws leaves in proportion to their weights."""

    def __init__(self, size: int):
        self.levels: list[Tensor] = []
        while not self.levels or size > 1:
            blocks = -(-size // FAN_OUT)
            self.levels.append(torch.zeros(blocks * FAN_OUT, dtype=torch.float64))
            size = blocks

    @property
    def total(self) -> Tensor:
        return self.levels[-1].sum()

    @property
    def leaves(self) -> Tensor:
        return self.levels[0]

    def set(self, rows: Tensor, weights: Tensor) -> None:
        """New weights of leaves ``rows`` (K,); sums are made anew, so that rounding errors do not pile up."""
        self.levels[0][rows] = weights
        for lower, upper in pairwise(self.levels):
            rows = rows // FAN_OUT
            upper[rows] = lower.view(-1, FAN_OUT)[rows].sum(1)

    def find(self, points: Tensor) -> Tensor:
        """Leaves (K,) in whose share of [0, total) the ``points`` (K,) lie; never one of weight 0."""
        rows = torch.zeros(len(points), dtype=torch.int64)
        for level in reversed(self.levels):
            edges = level.view(-1, FAN_OUT)[rows].cumsum(1)
            # Rounding may leave a point on the last edge, beyond which nothing lies.
            points = torch.minimum(points, edges[:, -1].nextafter(torch.zeros((), dtype=torch.float64)))
            child = (edges <= points[:, None]).sum(1)
            before = torch.where(child > 0, edges.gather(1, (child - 1).clamp(min=0)[:, None])[:, 0], 0.0)
            points = points - before
            rows = rows * FAN_OUT + child
        return rows


class PrioritizedReplayBuffer(ReplayBuffer):
    """Draws transitions in proportion to (|error| + epsilon)^alpha; new ones have the largest priority so far.

    A batch is drawn from equal strata. Its importance weights are (1 / P)^beta over the largest in the batch.
    """

    def __init__(
        self, capacity: int, num_envs: int, *, gamma: float, n_step: int = 1, seed: int = 0, alpha: float, beta: float
    ):
        super().__init__(capacity, num_envs, gamma=gamma, n_step=n_step, seed=seed)
        self.alpha, self.beta = alpha, beta
        self.tree = SumTree(self.slots * num_envs)
        self.largest = torch.ones((), dtype=torch.float64)
        self._changed: list[int] = []

    def add(
        self,
        observations: Observation,
        actions: Tensor,
        rewards: Tensor,
        terminated: Tensor,
        truncated: Tensor,
        next_observations: Observation,
        valid: Tensor | None = None,
    ) -> None:
        self._changed.append(self.cursor)
        super().add(observations, actions, rewards, terminated, truncated, next_observations, valid)

    def _forget_oldest(self) -> int:
        slot = super()._forget_oldest()
        self._changed.append(slot)
        return slot

    def sample(self, count: int) -> Transitions:
        if not len(self):
            raise ValueError("nothing to draw: the replay buffer is empty")
        self._set_changed()
        strata = torch.arange(count, dtype=torch.float64)
        offsets = torch.rand(count, dtype=torch.float64, generator=self.generator)
        rows = self.tree.find((strata + offsets) * (self.tree.total / count))
        priorities = self.tree.leaves[rows]
        weights = (priorities.min() / priorities) ** self.beta
        return self._read(rows, weights.to(self.rewards.dtype))

    def update(self, rows: Tensor, errors: Tensor) -> None:
        """New priorities from the temporal-difference ``errors`` (K,) of transitions ``rows`` (K,)."""
        self._set_changed()
        sizes = errors.abs().double() + EPSILON
        self.largest = torch.maximum(self.largest, sizes.max())
        self.tree.set(rows, sizes**self.alpha)

    def _set_changed(self) -> None:
        """Priorities of the slots written or forgotten since the last draw."""
        if not self._changed:
            return
        slots = torch.tensor(sorted(set(self._changed)))
        self._changed.clear()
        rows = (slots[:, None] * self.num_envs + torch.arange(self.num_envs)).flatten()
        age = (self.cursor - 1 - slots) % self.slots
        there = (age < self.filled).repeat_interleave(self.num_envs) & self.valid[rows]
        self.tree.set(rows, there * self.largest**self.alpha)

    def state_dict(self) -> dict[str, Any]:
        self._set_changed()
        state = super().state_dict()
        return state | {"priorities": self.tree.leaves[: len(state["rewards"])].clone(), "largest": self.largest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.largest = state["largest"].clone()
        self._changed.clear()
        self.tree.set(torch.arange(len(state["priorities"])), state["priorities"])
