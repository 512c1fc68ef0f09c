"""Advantages of tokens against a slow definition: one sequence at a time, one decision after the other."""

from __future__ import annotations

import pytest
import torch
from gaitway_agents.core.advantage import gae
from gaitway_agents.core.token_advantage import returns_to_go, token_gae
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, tensor


def numbers(seed: int, rows: int, columns: int, density: float) -> tuple[Tensor, Tensor, Tensor]:
    """Rewards, values and a mask with prompts, gaps and padding in any order; what is masked out is poison."""
    g = torch.Generator().manual_seed(seed)
    mask = (torch.rand(rows, columns, generator=g) < density).double()
    rewards, values = torch.randn(2, rows, columns, generator=g, dtype=torch.float64)
    poison = torch.full_like(rewards, float("nan"))
    return torch.where(mask.bool(), rewards, poison), torch.where(mask.bool(), values, poison), mask


def slow_gae(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float) -> Tensor:
    advantages = torch.zeros_like(mask)
    for row in range(len(mask)):
        columns = mask[row].nonzero().flatten().tolist()
        for i, column in enumerate(columns):
            for k in range(i, len(columns)):
                following = float(values[row, columns[k + 1]]) if k + 1 < len(columns) else 0.0
                error = float(rewards[row, columns[k]]) + gamma * following - float(values[row, columns[k]])
                advantages[row, column] += (gamma * lam) ** (k - i) * error
    return advantages


@given(st.integers(0, 2**31), st.integers(1, 5), st.integers(1, 9), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_token_gae_equals_its_definition(seed, rows, columns, density, gamma, lam):
    rewards, values, mask = numbers(seed, rows, columns, density)
    found = token_gae(rewards, values, mask, gamma, lam)
    torch.testing.assert_close(found, slow_gae(rewards, values, mask, gamma, lam))
    assert found.shape == mask.shape and (found[mask == 0] == 0).all()


@given(st.integers(0, 2**31), st.integers(1, 5), st.integers(1, 9), st.floats(0, 1), st.floats(0, 1))
def test_returns_to_go_are_gae_without_a_critic(seed, rows, columns, density, gamma):
    rewards, _, mask = numbers(seed, rows, columns, density)
    torch.testing.assert_close(
        returns_to_go(rewards, mask, gamma), slow_gae(rewards, torch.zeros_like(mask), mask, gamma, 1.0)
    )


def test_by_hand_with_a_tool_between_two_decisions():
    # Decisions in columns 1, 3 and 4; column 2 is what a tool wrote. Errors: 0 + 2/2 - 1 = 0, 0 + 4/2 - 2, 8 - 4.
    mask = tensor([[0.0, 1, 0, 1, 1, 0]])
    values, rewards = tensor([[9.0, 1, 9, 2, 4, 9]]), tensor([[9.0, 0, 9, 0, 8, 9]])
    assert token_gae(rewards, values, mask, 0.5, 0.5).tolist() == [[0.0, 0.25, 0.0, 1.0, 4.0, 0.0]]
    assert returns_to_go(rewards, mask, 0.5).tolist() == [[0.0, 2.0, 0.0, 4.0, 8.0, 0.0]]


def test_the_same_numbers_as_a_rollout_of_robots():
    """Whole sequences are environments side by side, whose episodes end with the rollout."""
    g = torch.Generator().manual_seed(3)
    rewards, values = torch.randn(2, 4, 7, generator=g)
    done = torch.zeros(7, 4, dtype=torch.bool)
    done[-1] = True
    following = torch.cat((values.T[1:], torch.zeros(1, 4)))
    robots = gae(rewards.T, values.T, following, done, done, 0.97, 0.9)
    assert torch.equal(token_gae(rewards, values, torch.ones(4, 7), 0.97, 0.9), robots.T)


@pytest.mark.parametrize("shape", [(0, 3), (2, 3)])
def test_sequences_without_decisions_have_no_advantages(shape):
    nothing = torch.zeros(shape)
    assert torch.equal(token_gae(nothing + 1.0, nothing + 1.0, nothing, 1.0, 1.0), nothing)
    assert torch.equal(returns_to_go(nothing + 1.0, nothing), nothing)
