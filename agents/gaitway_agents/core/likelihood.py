"""Maximum likelihood as a loss of the policy optimiser."""

from __future__ import annotations

from torch import Tensor

from .batch import Batch
from .policy import Evaluation


class NegativeLogLikelihood:
    """Of each decision, in nats: cross-entropy, behaviour cloning, supervised fine-tuning."""

    statistics: tuple[str, ...] = ("loss",)

    def __call__(self, new: Evaluation, batch: Batch) -> tuple[Tensor, Tensor]:
        losses = -new.log_probs if batch.weights is None else -new.log_probs * batch.weights
        return losses, losses.detach()[None]
