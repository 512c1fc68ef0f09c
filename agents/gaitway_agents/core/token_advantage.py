"""Advantages and returns of tokens: the estimators of ``advantage`` on sequences with prompts, padding and gaps.

All arguments are (B, L). ``mask`` is 1 where the policy chose the token. Tokens that it did not choose (a prompt's, a
tool's) are no steps: a decision is followed by the next decision, however many tokens lie between. Sequences end after
their last decision, whether by a stop token or at the limit of their length. Results are 0 where the mask is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .advantage import gae, monte_carlo


def token_gae(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float) -> Tensor:
    """Generalised advantage estimation over the decisions of each sequence, shape (B, L).

    Returns, for a critic to learn, are these advantages plus ``values``.
    """
    where, last = _decisions(mask)
    own = _gather(values, where, mask)
    following = torch.cat((own[1:], torch.zeros_like(own[:1])))
    return _scatter(gae(_gather(rewards, where, mask), own, following, last, last, gamma, lam), where, mask)


def returns_to_go(rewards: Tensor, mask: Tensor, gamma: float = 1.0) -> Tensor:
    """Discounted sum of the rewards from each decision to the end of its sequence, shape (B, L)."""
    where, last = _decisions(mask)
    own = _gather(rewards, where, mask)
    return _scatter(monte_carlo(own, torch.zeros_like(own), last, last, gamma), where, mask)


def _decisions(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Columns of the sequences' decisions, (T, B), and where the sequences are over, bool; time first, as in a rollout.

    For sequences with fewer decisions than T, the rest are columns of other tokens.
    """
    counts = mask.bool().sum(1)
    steps = max(1, int(counts.max())) if len(mask) else 1
    where = mask.bool().logical_not().to(torch.uint8).argsort(dim=1, stable=True)[:, :steps].T
    last = torch.arange(steps, device=mask.device)[:, None] >= counts - 1
    return where, last


def _gather(values: Tensor, where: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask.bool(), values, 0.0).T.gather(0, where)


def _scatter(values: Tensor, where: Tensor, mask: Tensor) -> Tensor:
    found = values.new_zeros(mask.T.shape).scatter_(0, where, values).T
    return torch.where(mask.bool(), found, 0.0)
