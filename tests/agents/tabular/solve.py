"""Whole runs of value iteration and policy iteration, for tests."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from gaitway_agents.tabular.dynamic_programming import (
    converged,
    discounts,
    error_bound,
    evaluate_policy,
    greedy_policy,
    improve,
    sweep,
)
from gaitway_agents.tabular.model import TabularModel
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Optimal values (S,) and a deterministic policy (S,) that attains them."""

    values: Tensor
    policy: Tensor
    iterations: int
    error_bound: float | None
    """Bound on the distance of ``values`` from the truth in any state; None where the theory gives none (gamma 1)."""


def value_iteration(
    model: TabularModel, gamma: float, *, tolerance: float = 1e-12, max_sweeps: int = 1_000_000
) -> Solution:
    """From values of zero until no value changes by more than ``tolerance``, relative to 1 or the largest value.

    Raises ValueError if that has not happened after ``max_sweeps``.
    """
    values = torch.zeros(model.num_states, dtype=torch.float64)
    for count in range(1, max_sweeps + 1):
        values, residual = sweep(model, values, gamma)
        if converged(values, residual, tolerance):
            policy = greedy_policy(model, values, gamma)
            return Solution(values=values, policy=policy, iterations=count, error_bound=error_bound(residual, gamma))
    raise ValueError(
        f"value iteration still changes values by {residual:g} after {max_sweeps:,} sweeps with gamma {gamma}: "
        "lower gamma, or the return may have no bound"
    )


def policy_iteration(model: TabularModel, gamma: float) -> Solution:
    """Howard's algorithm: evaluate exactly, improve, until nothing is better; exact but for rounding."""
    policy = torch.zeros(model.num_states, dtype=torch.int64)
    iterations = 0
    for discount in discounts(gamma):
        changed = True
        while changed:
            values = evaluate_policy(model, policy, discount)
            policy, changed = improve(model, policy, values, discount)
            iterations += 1
    bound = error_bound(sweep(model, values, gamma)[1], gamma)
    policy = greedy_policy(model, values, gamma)
    return Solution(values=values, policy=policy, iterations=iterations, error_bound=bound)
