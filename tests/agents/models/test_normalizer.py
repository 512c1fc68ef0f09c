"""Running statistics equal those of all data at once."""

from __future__ import annotations

import numpy as np
import torch
from gaitway_agents.models.normalizer import RewardScaler, RunningNormalizer
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(0, 2**31))
def test_statistics_equal_numpys_over_all_batches(sizes, seed):
    rng = np.random.default_rng(seed)
    batches = [rng.normal(rng.normal() * 3, 1 + rng.random(), (n, 4)).astype(np.float32) for n in sizes]
    normalizer = RunningNormalizer(4)
    for batch in batches:
        normalizer.update(torch.from_numpy(batch))
    everything = np.concatenate(batches).astype(np.float64)
    np.testing.assert_allclose(normalizer.mean.numpy(), everything.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(normalizer.var.numpy(), everything.var(0), rtol=1e-4, atol=1e-5)
    assert normalizer.count.item() == len(everything)
    expected = (everything - everything.mean(0)) / (everything.std(0) + 1e-2)
    np.testing.assert_allclose(normalizer(torch.from_numpy(everything).float()).numpy(), expected, rtol=1e-3, atol=1e-3)


def test_before_any_data_it_hardly_changes_anything():
    x = torch.randn(5, 3)
    torch.testing.assert_close(RunningNormalizer(3)(x), x / 1.01)


def test_a_constant_column_stays_finite():
    normalizer = RunningNormalizer(1)
    normalizer.update(torch.full((100, 1), 5.0))
    assert normalizer(torch.tensor([[5.0]])).item() == 0.0


def test_forward_does_not_learn_and_statistics_travel_with_the_model():
    normalizer, other = RunningNormalizer(2), RunningNormalizer(2)
    normalizer.update(torch.randn(50, 2) * 3 + 1)
    before = {k: v.clone() for k, v in normalizer.state_dict().items()}
    normalizer(torch.randn(20, 2))
    assert all(torch.equal(v, before[k]) for k, v in normalizer.state_dict().items())
    other.load_state_dict(normalizer.state_dict())
    x = torch.randn(4, 2)
    assert torch.equal(normalizer(x), other(x))


def test_many_small_updates_do_not_lose_precision():
    torch.manual_seed(1)
    data = torch.randn(20_000, 1) + 100.0  # a large mean makes a naive sum of squares cancel
    normalizer = RunningNormalizer(1)
    for part in data.split(20):
        normalizer.update(part)
    np.testing.assert_allclose(normalizer.var.item(), data.double().var(unbiased=False).item(), rtol=1e-2)


# ---- rewards ---------------------------------------------------------------------------------------------------------


def slow_scaling(
    rewards: np.ndarray, done: np.ndarray, valid: np.ndarray, lengths: list[int], gamma: float, clip: float
) -> np.ndarray:
    """The definition: every rollout's rewards over the standard deviation of all discounted returns up to its end."""
    steps, envs = rewards.shape
    seen: list[float] = []
    returns, scaled, ends = [0.0] * envs, np.empty_like(rewards), np.cumsum(lengths)
    for t in range(steps):
        for n in range(envs):
            if valid[t, n]:
                returns[n] = gamma * returns[n] + rewards[t, n]
                seen.append(returns[n])
            if done[t, n]:
                returns[n] = 0.0
        if t + 1 in ends:
            rollout = slice(t + 1 - lengths[list(ends).index(t + 1)], t + 1)
            scaled[rollout] = rewards[rollout] / np.sqrt(np.var(seen) + 1e-8 if seen else 1.0 + 1e-8)
    return np.clip(scaled, -clip, clip)


@given(
    seed=st.integers(0, 2**31),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    envs=st.integers(1, 4),
    gamma=st.sampled_from([0.0, 0.9, 0.999]),
    clip=st.sampled_from([0.5, 10.0]),
)
def test_rewards_are_divided_by_the_deviation_of_discounted_returns(seed, lengths, envs, gamma, clip):
    rng = np.random.default_rng(seed)
    rewards = rng.normal(1.0, 3.0, (sum(lengths), envs))
    done, valid = rng.random(rewards.shape) < 0.2, rng.random(rewards.shape) < 0.9
    scaler = RewardScaler(envs, gamma, clip).double()
    found = [
        scaler(*(torch.from_numpy(part) for part in parts)).numpy()
        for parts in zip(*(np.split(x, np.cumsum(lengths)[:-1]) for x in (rewards, done, valid)), strict=True)
    ]
    expected = slow_scaling(rewards, done, valid, lengths, gamma, clip)
    # A single return has no deviation, so that rounding decides what its reward is divided by.
    if valid[: lengths[0]].sum() > 1:
        np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-6, atol=1e-9)
    assert np.abs(np.concatenate(found)).max() <= clip


def test_a_scaler_continues_from_its_state():
    rewards, done = torch.randn(12, 3), torch.rand(12, 3) < 0.2
    valid = torch.ones_like(done)
    scaler, resumed = RewardScaler(3, 0.9), RewardScaler(3, 0.9)
    scaler(rewards[:5], done[:5], valid[:5])
    resumed.load_state_dict(scaler.state_dict())
    ours, again = (each(rewards[5:], done[5:], valid[5:]) for each in (scaler, resumed))
    assert torch.equal(ours, again)
    assert torch.equal(scaler.returns, resumed.returns)
