"""How often a model finds the better of two answers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from gaitway_agents.core.batch import Batch
from gaitway_agents.language.pairs import batch_of_pairs
from gaitway_agents.language.world import Preferences
from torch import Tensor

from .statistics import Measure, wilson

BATCH = 32


@torch.no_grad()
def rank(pairs: Preferences, scores: Callable[[Batch], Tensor], device: torch.device) -> Measure:
    """Share of pairs whose chosen answer has the higher score; ``scores`` of a batch of pairs have shape (P, 2)."""
    right = 0
    for first in range(0, len(pairs), BATCH):
        part = [pairs.pair(i) for i in range(first, min(first + BATCH, len(pairs)))]
        found = scores(batch_of_pairs(part, device))
        right += int((found[:, 0] > found[:, 1]).sum())
    return wilson(right, len(pairs))
