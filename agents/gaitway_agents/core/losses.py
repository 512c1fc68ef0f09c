"""Losses of each decision for the policy optimiser, built from the pure functions of ``objective``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Protocol

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, PositiveFloat, PositiveInt, one_of
from torch import Tensor

from . import objective
from .batch import Batch
from .critic import squared_errors
from .policy import Evaluation
from .surrogates import CISPO, SAPO, VESPO, ClippedSurrogate, ImportanceSampling, Reinforce


class Loss(Protocol):
    """Losses and statistics of decisions, (B,) or (B, T). The optimiser takes the means."""

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the statistics; "kl", if there is one, steers an adaptive rate."""
        ...

    def __call__(self, new: Evaluation, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss of each decision, and statistics (len(statistics), B, ...) without gradient."""
        ...


AGGREGATIONS = ("decision", "sequence", "sequence_sum", "constant")


@dataclass(frozen=True, kw_only=True)
class ReferenceKL(Checked):
    """A leash: the KL divergence from the batch's reference policy, added to the loss."""

    coefficient: PositiveFloat = 0.04
    """Typically 0.001 to 0.1."""
    estimator: Annotated[str, one_of(*objective.KL_ESTIMATORS)] = "k3"
    """"k1", "k2", "k3", or "k1+" and "k3+" with the gradient of k2: see ``objective.kl_estimate``."""
    importance: bool = False
    """Multiply the estimate by the ratio, for actions of an older policy (DeepSeek-V3.2); TRL's bias correction."""


@dataclass(frozen=True, kw_only=True)
class PolicyLossConfig(Checked):
    """Settings of the policy's loss. Defaults are rsl_rl's for legged robots."""

    surrogate: ClippedSurrogate | ImportanceSampling | Reinforce | CISPO | SAPO | VESPO = field(
        default_factory=ClippedSurrogate
    )
    """Loss of a decision: one of the classes of ``surrogates``."""
    aggregation: Annotated[str, one_of(*AGGREGATIONS)] = "decision"
    """The mean over all decisions (DAPO; verl's token-mean); or over sequences, of their means ("sequence", GRPO;
    seq-mean-token-mean) or sums ("sequence_sum", LUSPO; seq-mean-token-sum); or "constant", the sum divided by
    sequences times ``horizon`` (Dr. GRPO)."""
    horizon: PositiveInt | None = None
    """Divisor of "constant": the length of the longest possible sequence."""
    reference_kl: ReferenceKL | None = None
    """Penalty for leaving a reference policy; None: none."""
    value_coefficient: float = 1.0
    """Weight of the value loss; typically 0.5 to 1."""
    clip_value_loss: bool = True
    """True clips the move of values, as PPO clips the policy's."""
    value_clip: PositiveFloat | None = None
    """Largest move of a value in a clipped loss; None: the surrogate's ``clip``, or 0.2 if it has none."""
    entropy_coefficient: float = 0.005
    """Weight of the entropy bonus; typically 0 to 0.01."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.aggregation == "constant") != (self.horizon is not None):
            raise UserError(
                f"aggregation {self.aggregation!r}, horizon {self.horizon}: 'constant' needs one, others none"
            )


class PolicyLoss:
    """The surrogate of a policy gradient, with critic, entropy bonus and a leash to a reference policy.

    ``batch.weights`` multiply the surrogate alone.
    """

    def __init__(self, config: PolicyLossConfig):
        self.config = config
        self.statistics: tuple[str, ...] = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")
        if config.reference_kl is not None:
            self.statistics += ("reference_kl",)

    def __call__(self, new: Evaluation, batch: Batch) -> tuple[Tensor, Tensor]:
        cfg = self.config
        log_ratio = new.log_probs - batch.log_probs
        if batch.mask is not None:
            log_ratio = log_ratio * batch.mask  # masked entries may be infinite, and infinity times 0 is NaN
        ratio = cfg.surrogate.ratio_of(log_ratio, batch.mask)
        policy_losses = cfg.surrogate(ratio, log_ratio, new, batch)
        losses = policy_losses
        if cfg.entropy_coefficient:
            losses = losses - cfg.entropy_coefficient * new.entropy
        reference_kl = None
        if cfg.reference_kl is not None:
            reference_kl = _reference_kl(new, batch, cfg.reference_kl.estimator)
            weighed = reference_kl * ratio if cfg.reference_kl.importance else reference_kl
            losses = losses + cfg.reference_kl.coefficient * weighed
        value_losses = self._value_losses(new, batch)
        if value_losses is not None:
            losses = losses + cfg.value_coefficient * value_losses
        with torch.no_grad():
            kl = objective.kl_k3(log_ratio) if new.kl is None else new.kl
            errors = torch.zeros_like(kl) if value_losses is None else value_losses
            columns = [policy_losses, errors, new.entropy, kl, cfg.surrogate.clipped(ratio)]
            if reference_kl is not None:
                columns.append(reference_kl)
            return losses, torch.stack([column.detach() for column in columns])

    def _value_losses(self, new: Evaluation, batch: Batch) -> Tensor | None:
        """The critic's loss of each decision; None for a policy without a critic."""
        cfg = self.config
        clip = cfg.clip_value_loss and new.value_losses is None
        if clip and new.values is not None and batch.values is not None and batch.returns is not None:
            return objective.clipped_value_loss(new.values, batch.values, batch.returns, self.value_limit)
        return squared_errors(new, batch)

    @property
    def value_limit(self) -> float:
        """Largest move of a value in a clipped loss."""
        cfg = self.config
        return getattr(cfg.surrogate, "clip", 0.2) if cfg.value_clip is None else cfg.value_clip


def _reference_kl(new: Evaluation, batch: Batch, estimator: str) -> Tensor:
    if batch.reference is None:
        raise UserError("reference_kl needs the batch's reference log-probabilities, and it has none")
    log_probs, reference = new.log_probs, batch.reference
    if batch.mask is not None:
        log_probs, reference = log_probs * batch.mask, reference * batch.mask
    return objective.kl_estimate(log_probs, reference, estimator)
