"""Policy-gradient objectives: pure functions of tensors, one value per decision. Means are taken by the optimiser."""

from __future__ import annotations

import torch
from torch import Tensor

# ---- surrogates -----------------------------------------------------------------------------------------------------


def clipped_surrogate(ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float) -> Tensor:
    """PPO's pessimistic surrogate as a loss (Schulman et al. 2017); the ratio is clipped to [1-low, 1+high]."""
    return torch.maximum(-advantages * ratio, -advantages * ratio.clamp(1.0 - clip_low, 1.0 + clip_high))


# ---- critics --------------------------------------------------------------------------------------------------------


def value_loss(values: Tensor, returns: Tensor) -> Tensor:
    """Squared error."""
    return (values - returns).square()


def clipped_value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip: float) -> Tensor:
    """Squared error of the value or of the value clipped to +-clip about the old one, whichever is larger."""
    clipped = old_values + (values - old_values).clamp(-clip, clip)
    return torch.maximum((values - returns).square(), (clipped - returns).square())


# ---- divergences ----------------------------------------------------------------------------------------------------


def gaussian_kl(old_mean: Tensor, old_std: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """KL(old || new) of diagonal Gaussians, summed over the last dimension."""
    ratio = old_std / std
    return (0.5 * (ratio.square() + ((mean - old_mean) / std).square() - 1.0) - ratio.log()).sum(-1)


def categorical_kl(old_log_probs: Tensor, log_probs: Tensor) -> Tensor:
    """KL(old || new) of categorical distributions, or of several side by side, summed over the last dimension."""
    return (old_log_probs.exp() * (old_log_probs - log_probs)).sum(-1)


def kl_k3(log_ratio: Tensor) -> Tensor:
    """Schulman's low-variance estimator of KL(old || new) from samples of old: (r - 1) - log r."""
    return log_ratio.exp() - 1.0 - log_ratio


# ---- means ----------------------------------------------------------------------------------------------------------


def masked_mean(values: Tensor, mask: Tensor | None, count: Tensor | float) -> Tensor:
    """Sum of ``values`` over the unmasked decisions divided by ``count``.

    The count is that of the whole minibatch, so chunks of a minibatch add up to its mean.
    """
    return (values if mask is None else values * mask).sum() / count


def sequence_means(values: Tensor, mask: Tensor | None) -> Tensor:
    """The mean over the unmasked decisions of each sequence, (B, T) -> (B,); 0 where there are none."""
    if mask is None:
        return values.mean(1)
    return (values * mask).sum(1) / mask.sum(1).clamp(min=1.0)
