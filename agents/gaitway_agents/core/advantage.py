"""Advantage estimators. Pure functions of tensors whose first dimension is time."""

from __future__ import annotations

import torch
from torch import Tensor

from . import distributed


def gae(
    rewards: Tensor, values: Tensor, next_values: Tensor, terminated: Tensor, done: Tensor, gamma: float, lam: float
) -> Tensor:
    """Generalised advantage estimation (Schulman et al. 2016), all arguments (T, N).

    ``next_values[t]`` is the value of the state that followed step t *before* any reset: of the final observation
    where an episode was truncated, and ignored where it ``terminated``. ``done`` is terminated or truncated and only
    stops the recursion, so a time limit never looks like a death.
    """
    not_terminated = 1.0 - terminated.to(values.dtype)
    carry = gamma * lam * (1.0 - done.to(values.dtype))
    deltas = rewards + gamma * next_values * not_terminated - values
    advantages = torch.empty_like(deltas)
    running = torch.zeros_like(deltas[0])
    for t in range(len(deltas) - 1, -1, -1):
        running = deltas[t] + carry[t] * running
        advantages[t] = running
    return advantages


def monte_carlo(rewards: Tensor, next_values: Tensor, terminated: Tensor, done: Tensor, gamma: float) -> Tensor:
    """Discounted returns (T, N), bootstrapped from ``next_values`` at truncations and at the end of the data."""
    returns = torch.empty_like(rewards)
    running = next_values[-1]
    for t in range(len(rewards) - 1, -1, -1):
        tail = next_values[t] * (1.0 - terminated[t].to(rewards.dtype))
        running = rewards[t] + gamma * torch.where(done[t], tail, running if t < len(rewards) - 1 else tail)
        returns[t] = running
    return returns


def normalise(advantages: Tensor, mask: Tensor | None = None, eps: float = 1e-8) -> Tensor:
    """Zero mean and unit (sample) standard deviation, over the decisions that ``mask`` keeps.

    A single decision has no deviation and is left as it is. Processes that learn together share mean and deviation.
    """
    kept = advantages if mask is None else advantages[mask.bool()]
    if distributed.size() > 1:
        count, mean, variance = distributed.moments(kept.flatten())
        return (advantages - mean) / ((variance * count / (count - 1)).sqrt().to(advantages.dtype) + eps)
    if kept.numel() < 2:
        return advantages
    std, mean = torch.std_mean(kept)
    return (advantages - mean) / (std + eps)
