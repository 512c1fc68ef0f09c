"""Weights of tokens that are not quite the trainer's own: another engine, or an older policy, has sampled them.

Engine and trainer run different kernels, often in different precisions, so that even with equal weights they disagree
about log-probabilities. A batch whose ``log_probs`` are the trainer's, computed before the update, is made right by
``weights`` from here: importance weights trainer / engine. Everything is (B, L); weights are 0 where the mask is, have
no gradient and may be multiplied with one another. Masked-out tokens keep their share of the loss's denominator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, one_of
from torch import Tensor

from ..core import objective


@dataclass(frozen=True, kw_only=True)
class CorrectionConfig(Checked):
    """Importance weights, trainer over engine, of tokens that another engine or an older policy has sampled.

    Defaults are those of truncated importance sampling (Yao et al. 2025, "Your efficient RL framework secretly brings
    you off-policy RL training").
    """

    level: Annotated[str, one_of("token", "sequence", "geometric")] = "token"
    """The ratio of each "token"; of the "sequence", the product of its tokens' ratios; or their "geometric" mean."""
    rule: Annotated[str, one_of("truncate", "mask", "reject")] = "truncate"
    """Weights outside the bounds are set to the bound ("truncate", TIS) or to 0 ("mask": IcePop for tokens, MIS for
    sequences); "reject" also sets those inside to 1."""
    low: float | None = None
    """Lower bound; None is no bound."""
    high: float | None = 2.0
    """Upper bound, typically 2 to 10; None is no bound."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.low is not None and self.low < 0.0) or (self.high is not None and not self.high > (self.low or 0.0)):
            raise UserError(
                f"bounds ({self.low}, {self.high}) of importance weights: 0 <= low < high; None is no bound"
            )


def mismatch(log_probs: Tensor, engine: Tensor, mask: Tensor) -> dict[str, float]:
    """Mismatch of engine and trainer: ``mismatch_kl``, the estimate k3 of KL(engine || trainer) per token in nats, and
    ``mismatch_max``, the largest difference of a log-probability."""
    difference = _difference(log_probs, engine, mask)
    kl = objective.masked_mean(objective.kl_k3(difference), mask, mask.sum().clamp(min=1.0))
    return {"mismatch_kl": float(kl), "mismatch_max": float(difference.abs().max()) if difference.numel() else 0.0}


def importance_weights(
    log_probs: Tensor, engine: Tensor, mask: Tensor, config: CorrectionConfig
) -> tuple[Tensor, dict[str, float]]:
    """Ratios of the trainer's to the engine's probabilities, kept within the bounds.

    Statistics: ``importance_mean`` of the weights, ``importance_outside``, the share of tokens outside the bounds, and
    ``importance_effective``, the effective sample size over the number of tokens.
    """
    level, rule, low, high = config.level, config.rule, config.low, config.high
    difference = _difference(log_probs, engine, mask)
    if level == "sequence":
        difference = objective.sequence_sums(difference, mask)[:, None].expand_as(difference)
    elif level == "geometric":
        difference = objective.sequence_log_ratio(difference, mask)
    ratio = difference.exp()
    inside = torch.ones_like(ratio)
    if low is not None:
        inside = inside * (ratio >= low)
    if high is not None:
        inside = inside * (ratio <= high)
    if rule == "truncate":
        weights = ratio if low is None and high is None else ratio.clamp(low, high)
    else:  # not a product: what is infinite goes as well
        weights = torch.where(inside > 0.0, ratio if rule == "mask" else 1.0, 0.0)
    weights = weights * mask
    count = mask.sum().clamp(min=1.0)
    squares = weights.square().sum().clamp(min=torch.finfo(weights.dtype).tiny)
    statistics = {
        "importance_mean": weights.sum() / count,
        "importance_outside": ((1.0 - inside) * mask).sum() / count,
        "importance_effective": weights.sum().square() / squares / count,
    }
    return weights, {name: float(value) for name, value in statistics.items()}


def off_policy_mask(
    advantages: Tensor, log_probs: Tensor, behaviour: Tensor, mask: Tensor, threshold: float
) -> tuple[Tensor, dict[str, float]]:
    """Weights that drop bad sequences far from the policy (off-policy sequence mask, DeepSeek-V3.2 2025).

    A token of negative advantage is dropped where the mean of ``behaviour - log_probs`` over its sequence, in nats,
    exceeds ``threshold``. Statistic: ``off_policy_dropped``, the share of tokens.
    """
    drift = -objective.sequence_means(_difference(log_probs, behaviour, mask), mask)[:, None]
    weights = ((advantages >= 0.0) | (drift <= threshold)).to(mask.dtype) * mask
    dropped = 1.0 - weights.sum() / mask.sum().clamp(min=1.0)
    return weights, {"off_policy_dropped": float(dropped)}


def high_entropy(entropy: Tensor, mask: Tensor, share: float) -> Tensor:
    """Weights that keep the ``share`` of tokens where the policy is least certain (Wang et al. 2025, "Beyond the 80/20
    rule": 0.2)."""
    kept = entropy[mask.bool()].float()
    if not kept.numel():
        return torch.zeros_like(mask)
    return (entropy >= _quantile(kept, 1.0 - share)).to(mask.dtype) * mask


def _quantile(values: Tensor, share: float) -> Tensor:
    """``torch.quantile`` of values (N,), which refuses more than 2^24 of them."""
    rank = round(share * (len(values) - 1), 6)
    low = int(rank)
    lower = values.kthvalue(low + 1).values
    return lower if rank == low else torch.lerp(lower, values.kthvalue(low + 2).values, rank - low)


def _difference(log_probs: Tensor, other: Tensor, mask: Tensor) -> Tensor:
    """Log-ratio of the tokens, without gradient; 0 where an engine could not say (NaN) and where the mask is."""
    difference = (log_probs - other).detach()
    return torch.where(mask.bool() & ~difference.isnan(), difference, 0.0)
