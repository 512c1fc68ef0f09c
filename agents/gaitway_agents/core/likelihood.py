"""Maximum likelihood as a loss of the policy optimiser."""

from __future__ import annotations

import torch
from torch import Tensor

from .batch import Batch
from .policy import Evaluation


class NegativeLogLikelihood:
    """Negative log-likelihood of each decision [nats]: cross-entropy, behaviour cloning, supervised fine-tuning.

    ``accuracy`` adds the share of decisions that were the likeliest, for policies that say so.
    """

    def __init__(self, *, accuracy: bool = False):
        self.statistics: tuple[str, ...] = ("loss", "accuracy") if accuracy else ("loss",)

    def __call__(self, new: Evaluation, batch: Batch) -> tuple[Tensor, Tensor]:
        losses = -new.log_probs if batch.weights is None else -new.log_probs * batch.weights
        columns = [losses.detach()]
        if "accuracy" in self.statistics:
            assert new.likeliest is not None
            columns.append(new.likeliest)
        return losses, torch.stack(columns)
