"""Losses of each decision for the policy optimiser, built from the pure functions of ``objective``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, PositiveFloat, PositiveInt, PositivePair, one_of
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


SURROGATES = ("clip", "importance_sampling", "reinforce", "cispo", "sapo", "vespo")
RATIOS = ("decision", "sequence", "sequence_token")
AGGREGATIONS = ("decision", "sequence", "sequence_sum", "constant")


@dataclass(frozen=True, kw_only=True)
class PolicyLossConfig(Checked):
    """Settings of the policy's loss. Defaults are rsl_rl's for legged robots."""

    surrogate: Annotated[str, one_of(*SURROGATES)] = "clip"
    """"clip" (PPO); "importance_sampling", the ratio without a clip; "reinforce", log-probabilities without a ratio;
    "cispo", log-probabilities weighted by the clipped ratio (a ``clip`` of 1 or more leaves it free downwards);
    "sapo", a sigmoid in place of the clip; or "vespo", which weighs whole sequences."""
    ratio: Annotated[str, one_of(*RATIOS)] = "decision"
    """Probabilities that the ratio compares: of the "decision"; of the "sequence", by geometric mean (GSPO, Zheng et
    al. 2025); or "sequence_token", the same with the gradient of each decision (GSPO-token)."""
    clip: PositiveFloat = 0.2
    clip_high: PositiveFloat | None = None
    """Upper clip of the ratio, where it is wider than the lower one (clip-higher, Yu et al. 2025); None: ``clip``."""
    dual_clip: float | None = None
    """Bound the loss of bad actions as if no ratio were above this (Ye et al. 2020); TRL's ``delta``. None: none."""
    sapo_temperatures: PositivePair = (1.0, 1.05)
    """Temperatures for good and for bad actions."""
    vespo_shapes: PositivePair = (2.0, 3.0)
    """Powers of the sequence's importance weight, of good and of bad sequences."""
    vespo_rates: PositivePair = (3.0, 2.0)
    """How fast great weights vanish, of good and of bad sequences."""
    aggregation: Annotated[str, one_of(*AGGREGATIONS)] = "decision"
    """The mean over all decisions (DAPO; verl's token-mean); or over sequences, of their means ("sequence", GRPO;
    seq-mean-token-mean) or sums ("sequence_sum", LUSPO; seq-mean-token-sum); or "constant", the sum divided by
    sequences times ``horizon`` (Dr. GRPO)."""
    horizon: PositiveInt | None = None
    """Divisor of "constant": the length of the longest possible sequence."""
    kl_coefficient: float = 0.0
    """Weight of the KL divergence from the batch's reference policy."""
    kl_estimator: Annotated[str, one_of(*objective.KL_ESTIMATORS)] = "k3"
    """"k1", "k2", "k3", or "k1+" and "k3+" with the gradient of k2: see ``objective.kl_estimate``."""
    kl_importance: bool = False
    """Multiply the estimate by the ratio, for actions of an older policy (DeepSeek-V3.2); TRL's bias correction."""
    value_coefficient: float = 1.0
    clip_value_loss: bool = True
    value_clip: PositiveFloat | None = None
    """Largest move of a value in a clipped loss; None: ``clip``."""
    entropy_coefficient: float = 0.005

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dual_clip is not None and not (self.dual_clip > 1.0 and self.surrogate == "clip"):
            raise UserError(
                f"dual_clip {self.dual_clip} with surrogate {self.surrogate!r}: must be above 1, and 'clip' alone has "
                "it; None clips only once"
            )
        if self.ratio != "decision" and self.surrogate in ("reinforce", "vespo"):
            raise UserError(f"ratio {self.ratio!r} with surrogate {self.surrogate!r}, which has none: use 'decision'")
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
        self.high = config.clip if config.clip_high is None else config.clip_high
        self.statistics: tuple[str, ...] = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")
        if config.kl_coefficient:
            self.statistics += ("reference_kl",)

    def __call__(self, new: Evaluation, batch: Batch) -> tuple[Tensor, Tensor]:
        cfg = self.config
        log_ratio = new.log_probs - batch.log_probs
        if batch.mask is not None:
            log_ratio = log_ratio * batch.mask  # masked entries may be infinite, and infinity times 0 is NaN
        ratio = self._level(log_ratio, batch.mask).exp()
        policy_losses = self._surrogate(ratio, log_ratio, new, batch)
        losses = policy_losses
        if cfg.entropy_coefficient:
            losses = losses - cfg.entropy_coefficient * new.entropy
        reference_kl = None
        if cfg.kl_coefficient:
            reference_kl = self._reference_kl(new, batch)
            losses = losses + cfg.kl_coefficient * (reference_kl * ratio if cfg.kl_importance else reference_kl)
        value_losses = self._value_losses(new, batch)
        if value_losses is not None:
            losses = losses + cfg.value_coefficient * value_losses
        with torch.no_grad():
            kl = objective.kl_k3(log_ratio) if new.kl is None else new.kl
            errors = torch.zeros_like(kl) if value_losses is None else value_losses
            columns = [policy_losses, errors, new.entropy, kl, self._clipped(ratio)]
            if reference_kl is not None:
                columns.append(reference_kl)
            return losses, torch.stack([column.detach() for column in columns])

    def _level(self, log_ratio: Tensor, mask: Tensor | None) -> Tensor:
        """Log of the ratio that the surrogate sees."""
        if self.config.ratio == "decision":
            return log_ratio
        if self.config.ratio == "sequence":
            return objective.sequence_log_ratio(log_ratio, mask)
        return objective.sequence_token_log_ratio(log_ratio, mask)

    def _surrogate(self, ratio: Tensor, log_ratio: Tensor, new: Evaluation, batch: Batch) -> Tensor:
        cfg, advantages = self.config, batch.advantages
        if cfg.surrogate == "clip":
            losses = objective.clipped_surrogate(ratio, advantages, cfg.clip, self.high)
            if cfg.dual_clip is not None:
                losses = objective.dual_clip(losses, advantages, cfg.dual_clip)
        elif cfg.surrogate == "importance_sampling":
            losses = -advantages * ratio
        elif cfg.surrogate == "reinforce":
            losses = -advantages * new.log_probs
        elif cfg.surrogate == "cispo":
            losses = objective.cispo(ratio, new.log_probs, advantages, cfg.clip, self.high)
        elif cfg.surrogate == "sapo":
            losses = objective.sapo(ratio, advantages, cfg.sapo_temperatures)
        else:
            return self._vespo(log_ratio, new, batch)
        return losses if batch.weights is None else losses * batch.weights

    def _vespo(self, log_ratio: Tensor, new: Evaluation, batch: Batch) -> Tensor:
        """Weights of the batch belong to the sequence's importance weight, and multiply nothing."""
        log_weights = log_ratio.detach().clamp(-20.0, 20.0)
        if batch.weights is not None:
            log_weights = log_weights + batch.weights.clamp(min=1e-8).log().clamp(max=20.0)
        total = objective.sequence_sums(log_weights, batch.mask)[:, None]
        weights = objective.gamma_weights(total, batch.advantages, self.config.vespo_shapes, self.config.vespo_rates)
        return -weights * batch.advantages * new.log_probs

    def _clipped(self, ratio: Tensor) -> Tensor:
        """Where the ratio has left the clip; nowhere for a surrogate without one."""
        if self.config.surrogate not in ("clip", "cispo"):
            return torch.zeros_like(ratio)
        return ((ratio > 1.0 + self.high) | (ratio < 1.0 - self.config.clip)).to(ratio.dtype)

    def _reference_kl(self, new: Evaluation, batch: Batch) -> Tensor:
        if batch.reference is None:
            raise UserError("kl_coefficient needs the batch's reference log-probabilities, and it has none")
        log_probs, reference = new.log_probs, batch.reference
        if batch.mask is not None:
            log_probs, reference = log_probs * batch.mask, reference * batch.mask
        return objective.kl_estimate(log_probs, reference, self.config.kl_estimator)

    def _value_losses(self, new: Evaluation, batch: Batch) -> Tensor | None:
        """The critic's loss of each decision; None for a policy without a critic."""
        cfg = self.config
        clip = cfg.clip_value_loss and new.value_losses is None
        if clip and new.values is not None and batch.values is not None and batch.returns is not None:
            limit = cfg.clip if cfg.value_clip is None else cfg.value_clip
            return objective.clipped_value_loss(new.values, batch.values, batch.returns, limit)
        return squared_errors(new, batch)
