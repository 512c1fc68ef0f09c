"""Policy-gradient objectives: pure functions of tensors, one value per decision. Means are taken by the optimiser."""

from __future__ import annotations

import math

import torch
from gaitway_files.errors import UserError
from torch import Tensor

# ---- surrogates -----------------------------------------------------------------------------------------------------


def clipped_surrogate(ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float) -> Tensor:
    """PPO's pessimistic surrogate as a loss (Schulman et al. 2017); the ratio is clipped to [1-low, 1+high]."""
    return torch.maximum(-advantages * ratio, -advantages * ratio.clamp(1.0 - clip_low, 1.0 + clip_high))


def dual_clip(losses: Tensor, advantages: Tensor, limit: float) -> Tensor:
    """Bound the loss of bad actions, as if no ratio were above ``limit`` (Ye et al. 2020, "Mastering complex control").

    The clipped surrogate has no such bound. This is what TRL calls ``delta`` (two-sided clipping) as well.
    """
    return torch.where(advantages < 0.0, torch.minimum(losses, -advantages * limit), losses)


def cispo(ratio: Tensor, log_probs: Tensor, advantages: Tensor, clip_low: float, clip_high: float) -> Tensor:
    """A policy gradient weighted by the clipped ratio, so that no decision loses its gradient (MiniMax-M1, 2025)."""
    return -ratio.detach().clamp(1.0 - clip_low, 1.0 + clip_high) * advantages * log_probs


def sapo(ratio: Tensor, advantages: Tensor, temperatures: tuple[float, float]) -> Tensor:
    """Soft adaptive policy optimisation: a sigmoid about ratio 1 instead of the clip (Gao et al. 2025).

    ``temperatures`` are those of good and of bad actions; slope 1 at ratio 1 whatever they are.
    """
    good, bad = ratio.new_tensor(temperatures)
    heat = torch.where(advantages > 0.0, good, bad)
    return -advantages * torch.sigmoid(heat * (ratio - 1.0)) * 4.0 / heat


def gamma_weights(
    log_weights: Tensor, advantages: Tensor, shapes: tuple[float, float], rates: tuple[float, float]
) -> Tensor:
    """VESPO's weights of sequences: ``e^rate w^shape e^(-rate w)``, 1 at importance weight w = 1; no gradient.

    ``log_weights`` are log w, of whole sequences; ``shapes`` and ``rates`` are those of good and of bad ones. Weights
    far from 1, either way, vanish (arXiv 2602.10693).
    """
    with torch.no_grad():
        log_weights = log_weights.clamp(math.log(1e-8), 20.0)
        shape, rate = (
            torch.where(advantages >= 0.0, good, bad) for good, bad in map(log_weights.new_tensor, (shapes, rates))
        )
        return (rate + shape * log_weights - rate * log_weights.exp()).exp()


# ---- ratios of sequences --------------------------------------------------------------------------------------------


def sequence_log_ratio(log_ratio: Tensor, mask: Tensor | None) -> Tensor:
    """Log of GSPO's ratio of a sequence, the geometric mean of its decisions' (Zheng et al. 2025), (B, T) -> (B, T)."""
    return sequence_means(log_ratio, mask)[:, None].expand_as(log_ratio)


def sequence_token_log_ratio(log_ratio: Tensor, mask: Tensor | None) -> Tensor:
    """Sequence's log-ratio with each decision's own gradient (GSPO-token), for advantages that differ within a
    sequence."""
    return sequence_log_ratio(log_ratio.detach(), mask) + (log_ratio - log_ratio.detach())


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


KL_ESTIMATORS = ("k1", "k2", "k3", "k1+", "k3+")


def kl_estimate(log_probs: Tensor, reference: Tensor, estimator: str) -> Tensor:
    """Estimate of KL(policy || reference) at actions of the policy (Schulman 2020, "Approximating KL divergence").

    "k1" is the log-ratio: unbiased, but of no use as a loss, for the mean of its gradient is 0. "k2" is half its
    square: biased, with the gradient of the KL divergence. "k3" has no bias and little variance, but the gradient of
    KL(reference || policy). "k1+" and "k3+" have the value of the one and the gradient of k2, as in verl.
    """
    log_ratio = reference - log_probs
    if estimator == "k2":
        return 0.5 * log_ratio.square()
    value = -log_ratio if estimator.startswith("k1") else kl_k3(log_ratio)
    if not estimator.endswith("+"):
        return value
    gradient = 0.5 * log_ratio.square()
    return gradient + (value - gradient).detach()


# ---- means ----------------------------------------------------------------------------------------------------------


def masked_mean(values: Tensor, mask: Tensor | None, count: Tensor | float) -> Tensor:
    """Sum of ``values`` over the unmasked decisions divided by ``count``.

    The count is that of the whole minibatch, so chunks of a minibatch add up to its mean.
    """
    return (values if mask is None else values * mask).sum() / count


def sequence_means(values: Tensor, mask: Tensor | None) -> Tensor:
    """The mean over the unmasked decisions of each sequence, (B, T) -> (B,); 0 where there are none."""
    sums = sequence_sums(values, mask)
    return sums / values.shape[1] if mask is None else sums / mask.sum(1).clamp(min=1.0)


def sequence_sums(values: Tensor, mask: Tensor | None) -> Tensor:
    """The sum over the unmasked decisions of each sequence, (B, T) -> (B,)."""
    if values.dim() != 2:
        raise UserError(f"decisions of shape {tuple(values.shape)} are in no sequences (B, T), which were asked for")
    return (values if mask is None else values * mask).sum(1)
