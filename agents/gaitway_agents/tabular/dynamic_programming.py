"""Exact solutions of finite Markov decision processes (Puterman 1994; Sutton & Barto 2018, chapter 4).

``gamma`` 1 is allowed wherever the undiscounted return is finite. Then a greedy policy need not be optimal: on a
frozen lake without slipping every step that keeps the goal in reach has value 1, walking in circles included. So ties
are broken as a discount just below 1 would break them, which is in favour of getting there.
"""

from __future__ import annotations

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from .model import TabularModel

NEAR_ONE = 1.0 - 1e-5
"""Breaks ties of the undiscounted return; its linear systems still leave eleven digits."""
TIE = 1e-8
"""Actions whose values differ by less, relative to 1 or to the value, count as equally good."""
ROUNDING = 1e-10
"""Gains below this, relative to 1 or to the value, are no reason to change a policy."""


def action_values(model: TabularModel, values: Tensor, gamma: float) -> Tensor:
    """Q (S, A) of one step followed by ``values`` (S,)."""
    return model.rewards + gamma * (model.transitions @ values)


def error_bound(residual: float, gamma: float) -> float | None:
    """Bound on the distance to the optimal values after a sweep that changed no value by more than ``residual``."""
    return residual * gamma / (1.0 - gamma) if gamma < 1.0 else None


def sweep(model: TabularModel, values: Tensor, gamma: float) -> tuple[Tensor, float]:
    """One step of value iteration: new values and the largest change."""
    updated = action_values(model, values, gamma).amax(1)
    return updated, float((updated - values).abs().max())


def converged(values: Tensor, residual: float, tolerance: float) -> bool:
    return residual <= tolerance * max(1.0, float(values.abs().max()))


def discounts(gamma: float) -> list[float]:
    """Discounts that policy iteration goes through.

    A policy that never ends has no finite value without a discount. Policies that are best just below 1 end, or collect
    nothing for ever, if any policy does; improving on them strictly keeps it so.
    """
    return [gamma] if gamma <= NEAR_ONE else [NEAR_ONE, gamma]


def improve(
    model: TabularModel, policy: Tensor, values: Tensor, gamma: float, allowed: Tensor | None = None
) -> tuple[Tensor, bool]:
    """The greedy policy for ``values``, keeping the present action (S,) where none is truly better; did it change?"""
    q = action_values(model, values, gamma)
    if allowed is not None:
        q = q.masked_fill(~allowed, -torch.inf)
    present = q.gather(1, policy[:, None])[:, 0]
    better = q.amax(1) > present + ROUNDING * (1.0 + present.abs())
    return torch.where(better, _best(q, ROUNDING).double().argmax(1), policy), bool(better.any())


def greedy_policy(model: TabularModel, values: Tensor, gamma: float) -> Tensor:
    """Optimal policy (S,) for optimal ``values``: the first of the best actions; with gamma 1, the one that ends."""
    allowed = _best(action_values(model, values, gamma), TIE)
    policy, changed = allowed.double().argmax(1), True
    while changed:
        discounted = evaluate_policy(model, policy, min(gamma, NEAR_ONE))
        policy, changed = improve(model, policy, discounted, min(gamma, NEAR_ONE), allowed)
    return policy


def _best(q: Tensor, tolerance: float) -> Tensor:
    """Mask (S, A) of the actions that are as good as the best one, within ``tolerance``."""
    top = q.amax(1, keepdim=True)
    return q >= top - tolerance * (1.0 + top.abs())


def evaluate_policy(model: TabularModel, policy: Tensor, gamma: float) -> Tensor:
    """Values (S,) of a policy, actions (S,) or probabilities (S, A), from the linear Bellman equation.

    Raises ValueError if gamma is 1 and the policy goes on for ever without coming to where nothing is left to collect.
    """
    transitions, rewards, ends = model.chain(policy)
    if gamma == 1.0:
        settled = _settled(transitions, rewards)
        ending = _reaches(transitions, settled | (ends > 0))
        if not bool(ending.all()):
            state = int((~ending).nonzero()[0])
            raise UserError(
                f"gamma 1: from state {state} the policy never ends and its return has no limit; use gamma below 1"
            )
        transitions, rewards = transitions * ~settled[:, None], rewards * ~settled
    identity = torch.eye(model.num_states, dtype=torch.float64)
    return torch.linalg.solve(identity - gamma * transitions, rewards)


def _settled(transitions: Tensor, rewards: Tensor) -> Tensor:
    """States (S,) from which nothing but zero rewards can follow."""
    return ~_reaches(transitions, rewards != 0)


def _reaches(transitions: Tensor, targets: Tensor) -> Tensor:
    """States (S,) from which one of ``targets`` is reached with a probability above zero."""
    while True:
        grown = targets | (transitions[:, targets] > 0).any(1)
        if torch.equal(grown, targets):
            return targets
        targets = grown


def evaluate_within(model: TabularModel, policy: Tensor, horizon: int, gamma: float = 1.0) -> Tensor:
    """Values (``horizon`` + 1, S) of a policy, actions (S,) or probabilities (S, A), with 0, 1, ... steps left.

    On the frozen lakes, where only the goal pays, the last row is the probability of getting there in time.
    """
    transitions, rewards, _ = model.chain(policy)
    values = [torch.zeros_like(rewards)]
    for _ in range(horizon):
        values.append(rewards + gamma * (transitions @ values[-1]))
    return torch.stack(values)


def best_within(model: TabularModel, horizon: int, gamma: float = 1.0) -> tuple[Tensor, Tensor]:
    """The best values (``horizon`` + 1, S) with 0, 1, ... steps left, and actions (``horizon``, S) with 1, 2, ... left.

    It takes a policy that sees the clock to attain them.
    """
    values, actions = [torch.zeros(model.num_states, dtype=torch.float64)], []
    for _ in range(horizon):
        best, action = action_values(model, values[-1], gamma).max(1)
        values.append(best)
        actions.append(action)
    return torch.stack(values), torch.stack(actions)
