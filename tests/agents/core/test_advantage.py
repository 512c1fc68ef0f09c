"""Advantages and returns against values worked out by hand and against slow definitions."""

from __future__ import annotations

import pytest
import torch
from gaitway_agents.core.advantage import gae, monte_carlo, normalise
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def flags(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.bool)[:, None]


def random_rollout(seed: int, steps: int, envs: int) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    numbers = torch.randn(3, steps, envs, generator=g, dtype=torch.float64)
    terminated = torch.rand(steps, envs, generator=g) < 0.15
    truncated = torch.rand(steps, envs, generator=g) < 0.15
    return {
        "rewards": numbers[0],
        "values": numbers[1],
        "next_values": numbers[2],
        "terminated": terminated,
        "done": terminated | truncated,
    }


def slow_gae(rollout: dict[str, Tensor], gamma: float, lam: float) -> Tensor:
    """The definition: the exponentially weighted sum of the TD errors of the rest of the episode."""
    rewards, values, next_values, terminated, done = rollout.values()
    steps, envs = rewards.shape
    advantages = torch.zeros_like(rewards)
    for n in range(envs):
        for t in range(steps):
            weight = 1.0
            for k in range(t, steps):
                bootstrap = 0.0 if terminated[k, n] else gamma * next_values[k, n]
                advantages[t, n] += weight * (rewards[k, n] + bootstrap - values[k, n])
                weight *= gamma * lam
                if done[k, n]:
                    break
    return advantages


def slow_returns(rollout: dict[str, Tensor], gamma: float) -> Tensor:
    """The definition: discounted rewards of the rest of the episode, and a bootstrap unless it ended in a terminal."""
    rewards, _, next_values, terminated, done = rollout.values()
    steps, envs = rewards.shape
    returns = torch.zeros_like(rewards)
    for n in range(envs):
        for t in range(steps):
            last = next((k for k in range(t, steps) if done[k, n]), steps - 1)
            returns[t, n] = sum(gamma ** (k - t) * rewards[k, n] for k in range(t, last + 1))
            if not terminated[last, n]:
                returns[t, n] += gamma ** (last + 1 - t) * next_values[last, n]
    return returns


def test_gae_by_hand():
    # delta = r + g v' - v with g = 1/2: (1 + 1 - 1, 2 + 2 - 2, 3 + 4 - 4) = (1, 2, 3); g lam = 1/4.
    advantages = gae(column(1, 2, 3), column(1, 2, 4), column(2, 4, 8), flags(0, 0, 0), flags(0, 0, 0), 0.5, 0.5)
    assert advantages.flatten().tolist() == [1 + 0.25 * (2 + 0.25 * 3), 2 + 0.25 * 3, 3.0]


def test_termination_has_no_value_and_truncation_keeps_the_final_one():
    rewards, values, next_values = column(1, 1), column(0, 0), column(10, 10)
    dead = gae(rewards, values, next_values, flags(1, 0), flags(1, 0), 0.5, 1.0)
    cut = gae(rewards, values, next_values, flags(0, 0), flags(1, 0), 0.5, 1.0)
    assert dead.flatten().tolist() == [1.0, 6.0]
    assert cut.flatten().tolist() == [6.0, 6.0]


def test_no_advantage_leaks_across_an_episode_boundary():
    rollout = random_rollout(1, 8, 3)
    rollout["done"][3] = True
    before = gae(**rollout, gamma=0.9, lam=0.9)
    rollout["rewards"][4:] += 100.0
    after = gae(**rollout, gamma=0.9, lam=0.9)
    assert torch.equal(before[:4], after[:4])
    assert not torch.equal(before[4:], after[4:])


@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(1, 4), st.floats(0, 1), st.floats(0, 1))
def test_gae_equals_its_definition(seed, steps, envs, gamma, lam):
    rollout = random_rollout(seed, steps, envs)
    torch.testing.assert_close(gae(**rollout, gamma=gamma, lam=lam), slow_gae(rollout, gamma, lam))


@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(1, 4), st.floats(0, 1))
def test_monte_carlo_equals_its_definition(seed, steps, envs, gamma):
    rollout = random_rollout(seed, steps, envs)
    _, _, next_values, terminated, done = rollout.values()
    returns = monte_carlo(rollout["rewards"], next_values, terminated, done, gamma)
    torch.testing.assert_close(returns, slow_returns(rollout, gamma))


def test_gae_with_lambda_one_is_monte_carlo_minus_the_baseline():
    rollout = random_rollout(5, 20, 6)
    # The values of the next state are those of the next row, as in a real rollout; only then does the sum telescope.
    rollout["next_values"][:-1] = torch.where(rollout["done"][:-1], rollout["next_values"][:-1], rollout["values"][1:])
    rewards, values, next_values, terminated, done = rollout.values()
    advantages = gae(**rollout, gamma=0.97, lam=1.0)
    torch.testing.assert_close(advantages + values, monte_carlo(rewards, next_values, terminated, done, 0.97))


def test_normalise():
    normalised = normalise(torch.tensor([1.0, 2.0, 3.0]))
    assert normalised.tolist() == pytest.approx([-1.0, 0.0, 1.0])
    assert torch.equal(normalise(torch.full((4,), 7.0)), torch.zeros(4))  # equal advantages: no signal, no NaN


def test_normalise_counts_what_the_mask_keeps():
    advantages, mask = torch.tensor([[1.0, 100.0, 2.0], [3.0, -50.0, 0.0]]), torch.tensor([[1.0, 0, 1], [1, 0, 0]])
    normalised = normalise(advantages, mask)
    assert normalised[mask.bool()].tolist() == pytest.approx([-1.0, 0.0, 1.0])
    assert torch.equal(normalise(advantages, torch.ones(2, 3)), normalise(advantages))
