"""What the policy optimiser minimises: losses of each decision, built from the pure functions of ``objective``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from . import objective
from .batch import Batch
from .critic import squared_errors
from .policy import Evaluation


class Loss(Protocol):
    """Losses and statistics of decisions, (B,) or (B, T). The optimiser takes the means."""

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the statistics; "kl", if there is one, steers an adaptive rate."""
        ...

    def __call__(self, new: Evaluation, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss of each decision, and statistics (len(statistics), B, ...) without gradient."""
        ...


@dataclass(frozen=True, kw_only=True)
class PolicyLossConfig:
    """Settings of the policy's loss. Defaults are rsl_rl's for legged robots."""

    clip: float = 0.2
    clip_high: float | None = None
    """Upper clip of the ratio, where it is wider than the lower one (clip-higher, Yu et al. 2025); None: ``clip``."""
    aggregation: str = "decision"
    """The mean over all decisions; or over sequences, of their means ("sequence") or sums ("sequence_sum"); or
    "constant", the sum divided by sequences times ``horizon``."""
    horizon: int | None = None
    kl_coefficient: float = 0.0
    """Weight of the KL divergence from the batch's reference policy."""
    value_coefficient: float = 1.0
    clip_value_loss: bool = True
    entropy_coefficient: float = 0.005

    def __post_init__(self) -> None:
        if not self.clip > 0.0:
            raise ValueError(f"clip {self.clip}: must be positive")
        if self.clip_high is not None and not self.clip_high > 0.0:
            raise ValueError(f"clip_high {self.clip_high}: must be positive; None clips as far up as down")
        if self.aggregation not in AGGREGATIONS:
            raise ValueError(f"aggregation {self.aggregation!r}: use one of {', '.join(map(repr, AGGREGATIONS))}")
        if (self.aggregation == "constant") != (self.horizon is not None):
            raise ValueError(
                f"aggregation {self.aggregation!r}, horizon {self.horizon}: 'constant' needs one, others none"
            )


AGGREGATIONS = ("decision", "sequence", "sequence_sum", "constant")


class PolicyLoss:
    """The surrogate of a policy gradient, with critic, entropy bonus and a leash to a reference policy."""

    def __init__(self, config: PolicyLossConfig):
        self.config = config
        self.high = config.clip if config.clip_high is None else config.clip_high
        self.statistics: tuple[str, ...] = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")
        if config.kl_coefficient:
            self.statistics += ("reference_kl",)

    def __call__(self, new: Evaluation, batch: Batch) -> tuple[Tensor, Tensor]:
        cfg = self.config
        log_ratio = new.log_probs - batch.log_probs
        if batch.mask is not None:
            log_ratio = log_ratio * batch.mask  # nobody watches what is masked, and infinity times 0 is NaN
        ratio = log_ratio.exp()
        policy_losses = objective.clipped_surrogate(ratio, batch.advantages, cfg.clip, self.high)
        if batch.weights is not None:
            policy_losses = policy_losses * batch.weights
        losses = policy_losses
        if cfg.entropy_coefficient:
            losses = losses - cfg.entropy_coefficient * new.entropy
        reference_kl = None
        if cfg.kl_coefficient:
            reference_kl = self._reference_kl(new, batch)
            losses = losses + cfg.kl_coefficient * reference_kl
        value_losses = self._value_losses(new, batch)
        if value_losses is not None:
            losses = losses + cfg.value_coefficient * value_losses
        with torch.no_grad():
            kl = objective.kl_k3(log_ratio) if new.kl is None else new.kl
            clipped = ((ratio > 1.0 + self.high) | (ratio < 1.0 - cfg.clip)).to(ratio.dtype)
            errors = torch.zeros_like(kl) if value_losses is None else value_losses
            columns = [policy_losses, errors, new.entropy, kl, clipped]
            if reference_kl is not None:
                columns.append(reference_kl)
            return losses, torch.stack([column.detach() for column in columns])

    @staticmethod
    def _reference_kl(new: Evaluation, batch: Batch) -> Tensor:
        if batch.reference is None:
            raise ValueError("kl_coefficient needs the batch's reference log-probabilities, and it has none")
        log_ratio = batch.reference - new.log_probs
        return objective.kl_k3(log_ratio if batch.mask is None else log_ratio * batch.mask)

    def _value_losses(self, new: Evaluation, batch: Batch) -> Tensor | None:
        """The critic's loss of each decision; None for a policy without a critic."""
        clip = self.config.clip_value_loss and new.value_losses is None
        if clip and new.values is not None and batch.values is not None and batch.returns is not None:
            return objective.clipped_value_loss(new.values, batch.values, batch.returns, self.config.clip)
        return squared_errors(new, batch)
