"""Advantages of whole sequences among those that share a prompt, or a batch. Pure functions.

``rewards`` and ``groups`` are (B,); ``groups`` numbers the prompts from 0, and sequences of one prompt have one number.
Equal rewards teach nothing: where a group has no more than rounding between its best and its worst, its advantages are
exactly 0 and not the noise that a division by its tiny standard deviation would leave.
"""

from __future__ import annotations

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from . import distributed
from .advantage import normalise
from .token_advantage import returns_to_go, turn_gae

SIGNAL = 1e-6
"""Rewards of a group that lie no further apart than this are equal."""
SCALES = ("group", "batch", "none")


def group_relative(rewards: Tensor, groups: Tensor, scale: str = "group", eps: float = 1e-4) -> Tensor:
    """GRPO's advantages, shape (B,): reward minus the group's mean, over the standard deviation (Shao et al. 2024).

    The (sample) deviation is that of the "group", of the whole "batch" (of all processes that learn together), or
    "none" (Dr. GRPO, Liu et al. 2025). ``eps`` is added to it. A group of one has no advantage.
    """
    if scale not in SCALES:
        raise UserError(f"scale {scale!r}: use one of {', '.join(map(repr, SCALES))}")
    centred, count = _centred(rewards, groups)
    if scale == "group":
        squares = _sums(centred.square(), groups)
        centred = centred / ((squares / (count - 1.0).clamp(min=1.0)).sqrt()[groups] + eps)
    elif scale == "batch":
        total, _, variance = distributed.moments(rewards)
        centred = centred / ((variance * total / max(float(total) - 1.0, 1.0)).sqrt() + eps)
    return torch.where(has_signal(rewards, groups), centred, 0.0)


def leave_one_out(rewards: Tensor, groups: Tensor) -> Tensor:
    """RLOO's advantages, shape (B,): reward minus the mean of the *others* of its group (Ahmadian et al. 2024).

    A group of one has no advantage.
    """
    centred, count = _centred(rewards, groups)
    advantages = centred * (count / (count - 1.0).clamp(min=1.0))[groups]
    return torch.where(has_signal(rewards, groups), advantages, 0.0)


def reinforce_plus_plus(rewards: Tensor, mask: Tensor, gamma: float = 1.0) -> Tensor:
    """REINFORCE++'s advantages (B, L): what tokens go on to earn, whitened over the batch (Hu et al. 2025).

    ``rewards`` (B, L) are those of tokens: the penalty of the KL divergence, and at the last one the answer's reward.
    """
    return _whitened(returns_to_go(rewards, mask, gamma), mask)


def reinforce_plus_plus_baseline(rewards: Tensor, groups: Tensor, mask: Tensor) -> Tensor:
    """Advantages (B, L) of REINFORCE++-baseline: reward minus the group's mean, whitened over the batch's tokens.

    Whitening subtracts the mean over all tokens, from groups without a signal too: leave those out to leave them alone.
    """
    centred, _ = _centred(rewards, groups)
    return _whitened(torch.where(has_signal(rewards, groups), centred, 0.0)[:, None] * mask, mask)


def place_relative(rewards: Tensor, tokens: Tensor, mask: Tensor, gamma: float, lam: float) -> Tensor:
    """Advantages (B, L) of turns over others in the same place, see :func:`turn_gae`, whitened over the tokens."""
    return _whitened(turn_gae(rewards, tokens, mask, gamma, lam), mask)


def has_signal(rewards: Tensor, groups: Tensor) -> Tensor:
    """Mask of the sequences whose group has better and worse answers, shape (B,), bool."""
    empty = rewards.new_zeros(_size(groups))
    best = empty.scatter_reduce(0, groups, rewards, "amax", include_self=False)
    worst = empty.scatter_reduce(0, groups, rewards, "amin", include_self=False)
    return (best - worst > SIGNAL)[groups]


def most_varied(rewards: Tensor, groups: Tensor, count: int) -> Tensor:
    """Indices, in order, of the ``count`` sequences of each group whose rewards vary most (PODS, Xu et al. 2025).

    They are some of the worst and some of the best. Groups must have more than ``count`` sequences.
    """
    found = []
    for rows in (groups == torch.arange(_size(groups), device=groups.device)[:, None]).unbind():
        own = rows.nonzero()[:, 0]
        order = own[rewards[own].argsort(stable=True)]
        splits = [torch.cat((order[: count - best], order[len(order) - best :])) for best in range(count + 1)]
        found.append(max(splits, key=lambda split: float(rewards[split].var(correction=0))))
    return torch.cat(found).sort().values


def _centred(rewards: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """Rewards minus the mean of their group, (B,), and the sizes of the groups."""
    count = _sums(torch.ones_like(rewards), groups)
    return rewards - (_sums(rewards, groups) / count.clamp(min=1.0))[groups], count


def _sums(values: Tensor, groups: Tensor) -> Tensor:
    return values.new_zeros(_size(groups)).index_add_(0, groups, values)


def _size(groups: Tensor) -> int:
    return int(groups.max()) + 1 if groups.numel() else 0


def _whitened(values: Tensor, mask: Tensor) -> Tensor:
    kept = values[mask.bool()]
    first = distributed.from_first_(kept[:1].clone() if kept.numel() else values.new_zeros(1))
    differs = bool(((kept - first).abs() > SIGNAL).any())
    if not distributed.any_of(differs, values.device):
        return torch.zeros_like(values)
    return normalise(values, mask) * mask
