"""Advantages and returns of tokens: the estimators of ``advantage`` on sequences with prompts, padding and gaps.

All arguments are (B, L). ``mask`` is 1 where the policy chose the token. Tokens that it did not choose (a prompt's, a
tool's) are no steps: a decision is followed by the next decision, however many tokens lie between. Sequences end after
their last decision, whether by a stop token or at the limit of their length. Results are 0 where the mask is.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from .advantage import gae, monte_carlo

Place = tuple[tuple[int, ...], tuple[int, ...]]
"""A prompt's tokens, and those that a turn follows."""


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


def turn_gae(rewards: Tensor, tokens: Tensor, mask: Tensor, gamma: float, lam: float) -> Tensor:
    """Generalised advantage estimation over the turns of dialogues, without a critic, shape (B, L).

    A turn is a run of decisions, and all of them get its advantage; ``gamma`` and ``lam`` are per turn. The value of a
    turn is the mean return of all turns in the same place, that is after the same prompt and the same tokens since the
    turn before, such as a reply that tells a position (the anchor states of GiGPO, Feng et al. 2025). A place of one
    turn has nothing to be compared with: it takes the value of the turn before it.
    """
    turns = _turns(tokens.tolist(), mask)
    earned = [float(rewards[row, begin:end].sum()) for row, begin, end, _ in turns]
    goes_on = [a[0] == b[0] for a, b in pairwise([*turns, (-1, 0, 0, ())])]
    returns, following = [0.0] * len(turns), 0.0
    for i in reversed(range(len(turns))):
        returns[i] = following = earned[i] + gamma * following * goes_on[i]
    seen: dict[Place, list[float]] = {}
    for (*_, place), value in zip(turns, returns, strict=True):
        seen.setdefault(place, []).append(value)
    values: list[float] = []
    for i, (*_, place) in enumerate(turns):
        alone = len(seen[place]) == 1 and i > 0 and goes_on[i - 1]
        values.append(values[-1] if alone else sum(seen[place]) / len(seen[place]))
    found, advantage = torch.zeros_like(rewards), 0.0
    for i in reversed(range(len(turns))):
        row, begin, end, _ = turns[i]
        # A_t = r_t + gamma (V_t+1 + lam A_t+1) - V_t
        ahead = values[i + 1] + lam * advantage if goes_on[i] else 0.0
        advantage = earned[i] + gamma * ahead - values[i]
        found[row, begin:end] = advantage
    return found


def _turns(tokens: list[list[int]], mask: Tensor) -> list[tuple[int, int, int, Place]]:
    """Row, first column, end and place of every run of decisions, in order."""
    steps = torch.nn.functional.pad(mask.bool().int(), (1, 1)).diff(dim=1)
    begins, ends = ((steps == sign).nonzero().tolist() for sign in (1, -1))
    found: list[tuple[int, int, int, Place]] = []
    for (row, begin), (_, end) in zip(begins, ends, strict=True):
        if not found or found[-1][0] != row:
            prompt, since = tuple(tokens[row][:begin]), 0
        found.append((row, begin, end, (prompt, tuple(tokens[row][since:begin]))))
        since = end
    return found


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
