"""Shaped rewards: penalties of length and of leaving the reference."""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.advantage import normalise
from .config import PolicyGradientConfig
from .samples import Samples


def shaped_rewards(samples: Samples, config: PolicyGradientConfig) -> Tensor:
    """Reward of each sequence less the penalties of its length, shape (B,)."""
    rewards = samples.rewards
    if config.missing_eos_reward is not None:
        rewards = torch.where(samples.finished, rewards, config.missing_eos_reward)
    if config.missing_eos_penalty:
        rewards = rewards - config.missing_eos_penalty * (~samples.finished).to(rewards.dtype)
    if config.overlong_start is not None and config.overlong_end is not None:
        rewards = rewards - overlong(samples.sizes, config.overlong_start, config.overlong_end)
    return rewards


def overlong(sizes: Tensor, start: int, end: int) -> Tensor:
    """DAPO's soft punishment: 0 up to ``start`` tokens, 1 from ``end`` on, linear between (Yu et al. 2025)."""
    return ((sizes - start) / (end - start)).clamp(0.0, 1.0)


def token_rewards(
    rewards: Tensor, mask: Tensor, penalties: Tensor | None = None, earned: Tensor | None = None
) -> Tensor:
    """Rewards (B, L): each sequence's (B,) at its last chosen token, minus the ``penalties`` (B, L) of all of them.

    What single turns have ``earned`` (B, L) of them stays where it is.
    """
    columns = torch.arange(mask.shape[1], device=mask.device)
    last = (columns * mask.bool()).amax(1)
    found = torch.zeros_like(mask) if penalties is None else -penalties * mask
    if earned is not None:
        found, rewards = found + earned, rewards - earned.sum(1)
    return found + (columns == last[:, None]) * mask * rewards[:, None]


def whitened(rewards: Tensor, mask: Tensor) -> Tensor:
    """Unit standard deviation over the tokens, with the mean where it was."""
    return (normalise(rewards, mask) + rewards[mask.bool()].mean()) * mask
