"""Advantages of a scale that does not depend on that of the rewards."""

from __future__ import annotations

from typing import Any

import torch

from ..additions import Addition
from .batch import Batch

DECAY = 0.99
LOW, HIGH = 0.05, 0.95


class PercentileScaler(Addition):
    """Divides advantages by the range of returns, from their 5th to their 95th percentile, where that exceeds 1.

    The range is an exponential moving average over rollouts that starts at the first one's. Small returns are not
    scaled up: there, noise would be all there is to learn (DreamerV3, Hafner et al. 2023).
    """

    def __init__(self) -> None:
        self.range: float | None = None

    def seen(self, batch: Batch) -> None:
        """Count the returns of a rollout."""
        assert batch.returns is not None
        kept = batch.returns.flatten() if batch.mask is None else batch.returns[batch.mask.bool()]
        if kept.numel() == 0:
            return
        low, high = torch.quantile(kept, torch.tensor([LOW, HIGH], dtype=kept.dtype, device=kept.device)).tolist()
        self.range = high - low if self.range is None else DECAY * self.range + (1.0 - DECAY) * (high - low)

    def update(self, batch: Batch) -> dict[str, float]:
        return {} if self.range is None else {"return_range": self.range}

    def advantages(self, batch: Batch) -> Batch:
        """The batch with scaled advantages."""
        if self.range is None:
            return batch
        return batch.replace(advantages=batch.advantages / max(1.0, self.range))

    def state_dict(self) -> dict[str, Any]:
        return {"range": self.range}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.range = state["range"]
