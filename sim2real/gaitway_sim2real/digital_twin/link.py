"""A stretch of wire that delays and drops messages; they never overtake each other."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")


class Link(Generic[T]):
    def __init__(self, latency: float, jitter: float, loss: float, seed: np.random.SeedSequence):
        """``latency`` [s] of every message, up to ``jitter`` [s] more, and the share ``loss`` that never arrives."""
        self.latency, self.jitter, self.loss = latency, jitter, loss
        jitter_seed, loss_seed = seed.spawn(2)
        self._delays, self._losses = np.random.default_rng(jitter_seed), np.random.default_rng(loss_seed)
        self._coming: deque[tuple[float, T]] = deque()
        self._newest = -np.inf
        self.lost = 0
        """Messages that never arrived."""

    def send(self, now: float, message: T) -> None:
        if self.loss and self._losses.random() < self.loss:
            self.lost += 1
            return
        due = now + self.latency
        if self.jitter:
            due += self.jitter * self._delays.random()
        self._newest = max(due, self._newest)
        self._coming.append((self._newest, message))

    def arrivals(self, until: float) -> list[tuple[float, T]]:
        """Messages due by ``until`` [s] and when they were, oldest first."""
        found = []
        while self._coming and self._coming[0][0] <= until:
            found.append(self._coming.popleft())
        return found
