"""Temporal-difference control on tables (Sutton & Barto 2018, chapter 6): pure functions of rows of action values."""

from __future__ import annotations

import torch
from torch import Tensor


def greedy(q: Tensor, mask: Tensor | None = None) -> Tensor:
    """The first best action (N,) for each row of action values (N, A); ``mask`` (N, A) is True where allowed."""
    return (q if mask is None else q.masked_fill(~mask, -torch.inf)).argmax(1)


def epsilon_greedy(q: Tensor, epsilon: float, mask: Tensor | None = None) -> Tensor:
    """Action probabilities (N, A): ``epsilon`` spread over all allowed actions, the rest over the best of them."""
    allowed = torch.ones_like(q, dtype=torch.bool) if mask is None else mask
    values = q.masked_fill(~allowed, -torch.inf)
    best = values == values.amax(1, keepdim=True)
    weights = epsilon * allowed / allowed.sum(1, keepdim=True)
    return weights + (1.0 - epsilon) * best / best.sum(1, keepdim=True)


def sample(probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """One action (N,) from each row of ``probabilities`` (N, A)."""
    # The largest p / Exp(1) is distributed as p: quicker than multinomial for few actions.
    return (probabilities / torch.empty_like(probabilities).exponential_(generator=generator)).argmax(1)


def one_hot(actions: Tensor, num_actions: int) -> Tensor:
    """Action probabilities (N, A) of certain actions (N,)."""
    return torch.nn.functional.one_hot(actions, num_actions).double()


def td_targets(rewards: Tensor, terminated: Tensor, next_q: Tensor, next_policy: Tensor, gamma: float) -> Tensor:
    """Targets (N,) from the values ``next_q`` (N, A) of the true next states.

    What tells the methods apart is ``next_policy`` (N, A): Q-learning's is greedy (Watkins 1989), SARSA's the action
    that will be taken (Rummery & Niranjan 1994), expected SARSA's the policy that acts (van Seijen et al. 2009). In
    double learning it comes from one table and ``next_q`` from the other (van Hasselt 2010).
    """
    return rewards.double() + gamma * (~terminated) * (next_policy * next_q).sum(1)


def move_towards(table: Tensor, entries: Tensor, targets: Tensor, learning_rate: float) -> Tensor:
    """Move ``entries`` (N,) of the flat ``table`` towards ``targets`` (N,) in place; returns the errors before (N,).

    An entry that occurs k times makes k updates, in what is the mean over all orders: it moves by
    1 - (1 - learning_rate)^k towards the mean of its targets. So many environments cannot make a step too long.
    """
    errors = targets - table[entries]
    unique, inverse, counts = entries.unique(return_inverse=True, return_counts=True)
    counts = counts.to(table.dtype)
    mean = torch.zeros_like(counts).index_add_(0, inverse, errors) / counts
    table[unique] += (1.0 - (1.0 - learning_rate) ** counts) * mean
    return errors
