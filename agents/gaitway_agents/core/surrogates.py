"""Surrogates: the losses of decisions that stand for minus the return, one dataclass each, with its own settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from gaitway_files.ranges import Checked, PositiveFloat, PositivePair, Range, one_of
from torch import Tensor

from . import objective
from .batch import Batch
from .policy import Evaluation

RATIOS: dict[str, Callable[[Tensor, Tensor | None], Tensor]] = {
    "decision": lambda log_ratio, mask: log_ratio,
    "sequence": objective.sequence_log_ratio,
    "sequence_token": objective.sequence_token_log_ratio,
}


class Surrogate(Checked):
    """Base of surrogates: a ratio r = new / old probability of each decision, and the loss made of it.

    Your own surrogate overrides ``losses``, and any other method that differs.
    """

    def ratio_of(self, log_ratio: Tensor, mask: Tensor | None) -> Tensor:
        """r from the decisions' log-ratio."""
        return log_ratio.exp()

    def losses(self, ratio: Tensor, log_probs: Tensor, advantages: Tensor) -> Tensor:
        """Loss of each decision."""
        raise NotImplementedError

    def clipped(self, ratio: Tensor) -> Tensor:
        """1 where the ratio has left the clip; nowhere for a surrogate without one."""
        return torch.zeros_like(ratio)

    def __call__(self, ratio: Tensor, log_ratio: Tensor, new: Evaluation, batch: Batch) -> Tensor:
        """Loss of each decision times its weight in the batch."""
        losses = self.losses(ratio, new.log_probs, batch.advantages)
        return losses if batch.weights is None else losses * batch.weights


@dataclass(frozen=True, kw_only=True)
class ImportanceSampling(Surrogate):
    """- r A: the ratio without a clip."""

    ratio: Annotated[str, one_of(*RATIOS)] = "decision"
    """Probabilities that the ratio compares: of the "decision"; of the "sequence", by geometric mean (GSPO, Zheng et
    al. 2025); or "sequence_token", the same with the gradient of each decision (GSPO-token)."""

    def ratio_of(self, log_ratio: Tensor, mask: Tensor | None) -> Tensor:
        return RATIOS[self.ratio](log_ratio, mask).exp()

    def losses(self, ratio: Tensor, log_probs: Tensor, advantages: Tensor) -> Tensor:
        return -advantages * ratio


@dataclass(frozen=True, kw_only=True)
class Clipping(ImportanceSampling):
    """Base of surrogates that clip the ratio to [1 - ``clip``, 1 + ``clip_high``]."""

    clip: PositiveFloat = 0.2
    """Typically 0.1 to 0.3; 1 or more leaves the ratio free downwards."""
    clip_high: PositiveFloat | None = None
    """Upper clip of the ratio, where it is wider than the lower one (clip-higher, Yu et al. 2025); None: ``clip``."""

    @property
    def high(self) -> float:
        return self.clip if self.clip_high is None else self.clip_high

    def clipped(self, ratio: Tensor) -> Tensor:
        return ((ratio > 1.0 + self.high) | (ratio < 1.0 - self.clip)).to(ratio.dtype)


@dataclass(frozen=True, kw_only=True)
class ClippedSurrogate(Clipping):
    """- min(r A, clip(r) A): PPO (Schulman et al. 2017)."""

    dual_clip: Annotated[float, Range(lambda limit: limit > 1.0, "must be above 1")] | None = None
    """Bound the loss of bad actions as if no ratio were above this (Ye et al. 2020); TRL's ``delta``. None: none."""

    def losses(self, ratio: Tensor, log_probs: Tensor, advantages: Tensor) -> Tensor:
        losses = objective.clipped_surrogate(ratio, advantages, self.clip, self.high)
        return losses if self.dual_clip is None else objective.dual_clip(losses, advantages, self.dual_clip)


@dataclass(frozen=True, kw_only=True)
class CISPO(Clipping):
    """- clip(r) A log p, without a gradient through the clip (MiniMax-M1, 2025)."""

    def losses(self, ratio: Tensor, log_probs: Tensor, advantages: Tensor) -> Tensor:
        return objective.cispo(ratio, log_probs, advantages, self.clip, self.high)


@dataclass(frozen=True, kw_only=True)
class SAPO(ImportanceSampling):
    """- A sigmoid(t (r - 1)) 4 / t: a sigmoid in place of the clip (Gao et al. 2025)."""

    temperatures: PositivePair = (1.0, 1.05)
    """t for good and for bad actions."""

    def losses(self, ratio: Tensor, log_probs: Tensor, advantages: Tensor) -> Tensor:
        return objective.sapo(ratio, advantages, self.temperatures)


@dataclass(frozen=True, kw_only=True)
class Reinforce(Surrogate):
    """- A log p: log-probabilities without a ratio; verl's ``gpg``."""

    def losses(self, ratio: Tensor, log_probs: Tensor, advantages: Tensor) -> Tensor:
        return -advantages * log_probs


@dataclass(frozen=True, kw_only=True)
class VESPO(Surrogate):
    """- w A log p, with a weight w of the whole sequence that falls off on both sides of 1 (arXiv 2602.10693)."""

    shapes: PositivePair = (2.0, 3.0)
    """Powers of the sequence's importance weight, of good and of bad sequences."""
    rates: PositivePair = (3.0, 2.0)
    """Rates at which large weights decay, for good and for bad sequences."""

    def __call__(self, ratio: Tensor, log_ratio: Tensor, new: Evaluation, batch: Batch) -> Tensor:
        """Weights of the batch belong to the sequence's importance weight, and multiply nothing."""
        log_weights = log_ratio.detach().clamp(-20.0, 20.0)
        if batch.weights is not None:
            log_weights = log_weights + batch.weights.clamp(min=1e-8).log().clamp(max=20.0)
        total = objective.sequence_sums(log_weights, batch.mask)[:, None]
        weights = objective.gamma_weights(total, batch.advantages, self.shapes, self.rates)
        return -weights * batch.advantages * new.log_probs
