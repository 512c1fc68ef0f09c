"""Advantages among the answers to one prompt: by hand, against loops, and where there is nothing to learn."""

from __future__ import annotations

import itertools

import pytest
import torch
from gaitway_agents.core.group_advantage import (
    group_relative,
    has_signal,
    leave_one_out,
    most_varied,
    reinforce_plus_plus,
    reinforce_plus_plus_baseline,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, tensor

GROUPS = tensor([0, 0, 0, 1, 1, 2])


def test_group_relative_by_hand():
    rewards = tensor([1.0, 2.0, 3.0, 5.0, 7.0, 4.0])
    root = 2.0**0.5
    assert group_relative(rewards, GROUPS, eps=0.0).tolist() == pytest.approx([-1, 0, 1, -1 / root, 1 / root, 0])
    assert group_relative(rewards, GROUPS, "none").tolist() == [-1.0, 0.0, 1.0, -1.0, 1.0, 0.0]
    spread = rewards.std().item() + 1e-4
    expected = [-1 / spread, 0, 1 / spread, -1 / spread, 1 / spread, 0]
    assert group_relative(rewards, GROUPS, "batch").tolist() == pytest.approx(expected)


def test_leave_one_out_by_hand():
    rewards = tensor([1.0, 2.0, 6.0, 5.0, 7.0, 4.0])
    assert leave_one_out(rewards, GROUPS).tolist() == pytest.approx([1 - 4, 2 - 3.5, 6 - 1.5, -2, 2, 0])


def loop(rewards: Tensor, groups: Tensor, advantage) -> Tensor:
    result = torch.zeros_like(rewards)
    for group in groups.unique():
        rows = (groups == group).nonzero().flatten()
        for row in rows:
            result[row] = advantage(rewards[row], rewards[rows], rewards[rows[rows != row]])
    return result


@given(st.integers(0, 2**31), st.integers(1, 30), st.integers(1, 6))
def test_groups_of_any_size_and_order_equal_a_loop(seed, rows, prompts):
    g = torch.Generator().manual_seed(seed)
    rewards = torch.randn(rows, generator=g, dtype=torch.float64)
    groups = torch.randint(prompts, (rows,), generator=g)
    relative = loop(rewards, groups, lambda r, all, others: (r - all.mean()) / (all.std() + 1e-4) if len(others) else 0)
    alone = loop(rewards, groups, lambda r, all, others: r - others.mean() if len(others) else 0.0)
    torch.testing.assert_close(group_relative(rewards, groups), relative)
    torch.testing.assert_close(leave_one_out(rewards, groups), alone)


@given(st.integers(0, 2**31), st.integers(2, 4), st.integers(5, 7))
def test_no_other_answers_of_a_group_vary_more(seed, count, size):
    g = torch.Generator().manual_seed(seed)
    rewards = torch.randint(5, (2 * size,), generator=g).double()
    groups = torch.randint(2, (1,), generator=g) ^ (torch.arange(2 * size) % 2)
    kept = most_varied(rewards, groups, count)
    assert len(kept) == 2 * count and torch.equal(kept, kept.unique())
    for group in (0, 1):
        found, all_of_it = rewards[kept[groups[kept] == group]], rewards[groups == group].tolist()
        assert len(found) == count
        best = max(tensor(some).double().var(correction=0) for some in itertools.combinations(all_of_it, count))
        torch.testing.assert_close(found.var(correction=0), best)


@pytest.mark.parametrize("value", [0.1, -0.7, 1.2, 3e5])
@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_equal_rewards_leave_exactly_nothing(value, scale):
    """Their mean is not always themselves: rounding over a tiny deviation would pass for an advantage."""
    rewards, groups = torch.full((17,), value), torch.zeros(17, dtype=torch.long)
    assert torch.equal(group_relative(rewards, groups, scale), torch.zeros(17))
    assert torch.equal(leave_one_out(rewards, groups), torch.zeros(17))
    mask = torch.ones(17, 3)
    assert torch.equal(reinforce_plus_plus(torch.full((17, 1), value), mask[:, :1]), torch.zeros(17, 1))
    assert torch.equal(reinforce_plus_plus_baseline(rewards, groups, mask), torch.zeros(17, 3))


def test_rounding_would_have_been_taken_for_an_advantage():
    rewards = torch.full((17,), 0.1)
    noise = (rewards - rewards.sum() / 17) / (rewards.std() + 1e-8)
    assert noise.abs().max() > 0.1


def test_only_groups_with_better_and_worse_answers_have_a_signal():
    rewards = tensor([1.0, 1.0, 0.0, 0.3, 0.3, 9.0])
    assert has_signal(rewards, GROUPS).tolist() == [True, True, True, False, False, False]
    some = group_relative(rewards, GROUPS)
    assert (some[:3] != 0).all() and torch.equal(some[3:], torch.zeros(3))


def test_reinforce_plus_plus_whitens_what_tokens_go_on_to_earn():
    mask = tensor([[0.0, 1, 1, 0], [0, 0, 1, 1]])
    rewards = tensor([[0.0, -1, 3, 0], [0, 0, -2, 1]])
    to_go = tensor([2.0, 3.0, -1.0, 1.0])
    found = reinforce_plus_plus(rewards, mask)
    torch.testing.assert_close(found[mask.bool()], (to_go - to_go.mean()) / to_go.std())
    assert (found[mask == 0] == 0).all()


def test_reinforce_plus_plus_with_a_baseline_weighs_answers_by_their_tokens():
    mask = tensor([[0.0, 1, 1, 1], [0, 1, 0, 0]])
    found = reinforce_plus_plus_baseline(tensor([1.0, 0.0]), tensor([0, 0]), mask)
    tokens = tensor([0.5, 0.5, 0.5, -0.5])
    torch.testing.assert_close(found[mask.bool()], (tokens - tokens.mean()) / tokens.std())
    assert (found[mask == 0] == 0).all()


def test_an_unknown_scale_is_refused():
    with pytest.raises(ValueError, match="scale 'std': use one of 'group', 'batch', 'none'"):
        group_relative(torch.ones(2), torch.zeros(2, dtype=torch.long), "std")
