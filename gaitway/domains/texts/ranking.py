"""Accuracy of a model at ranking the better of two answers first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from gaitway_agents.core.batch import Batch
from gaitway_agents.language.pairs import Pair, batch_of_pairs
from torch import Tensor

from .statistics import Measure, wilson

BATCH = 32


@torch.no_grad()
def rank(pairs: Sequence[Pair], scores: Callable[[Batch], Tensor], device: torch.device) -> Measure:
    """Share of pairs whose chosen answer has the higher score; ``scores`` of a batch of pairs have shape (P, 2)."""
    right = 0
    for first in range(0, len(pairs), BATCH):
        found = scores(batch_of_pairs(pairs[first : first + BATCH], device))
        right += int((found[:, 0] > found[:, 1]).sum())
    return wilson(right, len(pairs))
