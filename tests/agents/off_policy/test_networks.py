"""Optimiser, target network, gradients by hand and the squashed Gaussian, against PyTorch's own."""

from __future__ import annotations

import copy
import math

import gymnasium
import numpy as np
import pytest
import torch
from gaitway_agents.off_policy.config import NetworkConfig
from gaitway_agents.off_policy.learner import Learner, Target
from gaitway_agents.off_policy.networks import QNetwork, SquashedGaussian, TwinCritic, actor_keys, critic_keys
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

VECTOR = gymnasium.spaces.Dict({"policy": gymnasium.spaces.Box(-1.0, 1.0, (5,))})
IMAGE = gymnasium.spaces.Dict({"policy": gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)})


# ---- learner and target ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_grad_norm", [None, 0.1, 1e6])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_a_step_is_that_of_adam_with_clipping(max_grad_norm, weight_decay):
    ours = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2)).double()
    theirs = copy.deepcopy(ours)
    learner = Learner(ours, 1e-2, betas=(0.8, 0.9), weight_decay=weight_decay, max_grad_norm=max_grad_norm)
    adam = torch.optim.AdamW(theirs.parameters(), lr=1e-2, betas=(0.8, 0.9), weight_decay=weight_decay)
    for _ in range(5):
        x = torch.randn(6, 5, dtype=torch.float64)
        learner.zero_grad()
        adam.zero_grad()
        for network in (ours, theirs):
            network(x).square().mean().backward()
        if max_grad_norm is not None:
            nn.utils.clip_grad_norm_(theirs.parameters(), max_grad_norm)
        learner.step()
        adam.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


def test_a_target_follows_slowly_or_at_once_and_never_moves_by_itself():
    learner = Learner(nn.Linear(3, 2), 1e-3)
    target = Target(learner)
    before = target.network.weight.clone()
    assert not any(p.requires_grad for p in target.network.parameters())
    with torch.no_grad():
        learner.vector.add_(1.0)
    assert torch.equal(target.network.weight, before)
    target.move(0.25)
    torch.testing.assert_close(target.network.weight, before + 0.25)
    target.move(1.0)
    assert torch.equal(target.network.weight, learner.network.weight)


# ---- networks --------------------------------------------------------------------------------------------------------


def test_duelling_values_are_state_value_plus_advantages_of_mean_zero():
    network = QNetwork(VECTOR, 4, NetworkConfig(hidden=(8, 6)), dueling=True)
    observations = {"policy": torch.randn(10, 5)}
    values = network(observations)
    features = torch.relu(network.trunk[0](observations["policy"]))
    for row in range(10):
        state = network.state(features[row : row + 1]).item()
        advantages = network.advantages(features[row : row + 1])[0].tolist()
        expected = [state + a - sum(advantages) / 4 for a in advantages]
        assert values[row].tolist() == pytest.approx(expected, abs=1e-6)


@given(st.integers(0, 10**6), st.floats(-6.0, 6.0))
def test_the_log_density_of_squashed_actions(seed, shift):
    torch.manual_seed(seed)
    policy = SquashedGaussian(VECTOR, 3, NetworkConfig(hidden=(8,)), (-3.0, 1.0)).double()
    with torch.no_grad():
        policy.outputs[-1].bias[:3] += shift
    observations, noise = {"policy": torch.randn(9, 5).double()}, torch.randn(9, 3).double()
    mean, log_std = policy(observations)
    actions, log_prob = policy.sample(observations, noise)
    normal = Independent(Normal(mean, log_std.exp()), 1)
    squashed = TransformedDistribution(normal, [TanhTransform(cache_size=1)])
    raw = mean + log_std.exp() * noise
    expected = normal.log_prob(raw) - TanhTransform().log_abs_det_jacobian(raw, raw.tanh()).sum(-1)
    torch.testing.assert_close(actions, raw.tanh())
    torch.testing.assert_close(log_prob, expected)
    if abs(shift) < 1.0:
        torch.testing.assert_close(log_prob, squashed.log_prob(actions), rtol=1e-6, atol=1e-6)


def test_a_saturated_action_keeps_a_finite_log_density_and_gradient():
    policy = SquashedGaussian(VECTOR, 1, NetworkConfig(hidden=()), (-3.0, 1.0))
    with torch.no_grad():
        policy.outputs[-1].weight.zero_()
        policy.outputs[-1].bias.copy_(torch.tensor([50.0, 0.0]))
    actions, log_prob = policy.sample({"policy": torch.zeros(1, 5)}, torch.zeros(1, 1))
    assert actions.item() == 1.0
    assert log_prob.item() == pytest.approx(-0.5 * math.log(2.0 * math.pi) + 2.0 * (50.0 - math.log(2.0)), rel=1e-6)
    log_prob.sum().backward()
    assert policy.outputs[-1].bias.grad.isfinite().all()


@pytest.mark.parametrize("smooth", [False, True])
def test_the_standard_deviation_stays_in_its_range(smooth):
    policy = SquashedGaussian(VECTOR, 2, NetworkConfig(hidden=()), (-2.0, 0.5), smooth)
    with torch.no_grad():
        policy.outputs[-1].weight.mul_(100.0)
    _, log_std = policy({"policy": torch.randn(100, 5)})
    assert (log_std.min().item(), log_std.max().item()) == pytest.approx((-2.0, 0.5))


@pytest.mark.parametrize("smooth", [False, True])
def test_only_a_smooth_range_lets_go_of_what_is_beyond_it(smooth):
    policy = SquashedGaussian(VECTOR, 1, NetworkConfig(hidden=()), (-5.0, 0.0), smooth)
    with torch.no_grad():
        policy.outputs[-1].weight.zero_()
        policy.outputs[-1].bias.copy_(torch.tensor([0.0, 0.5]))
    policy({"policy": torch.zeros(1, 5)})[1].sum().backward()
    assert (policy.outputs[-1].bias.grad[1].item() > 0.1) == smooth


def test_twin_critics_are_two():
    critic = TwinCritic(VECTOR, 2, NetworkConfig(hidden=(8,)))
    first, second = critic({"policy": torch.randn(6, 5)}, torch.randn(6, 2))
    assert first.shape == second.shape == (6,)
    assert (first != second).all()


def test_which_observations_a_network_reads():
    box = VECTOR["policy"]
    robot = gymnasium.spaces.Dict({"policy": box, "critic": box})
    assert (actor_keys(robot), critic_keys(robot)) == (["policy"], ["critic"])
    masked = gymnasium.spaces.Dict({"policy": box, "action_mask": gymnasium.spaces.MultiBinary(2)})
    assert (actor_keys(masked), critic_keys(masked)) == (["policy"], ["policy"])
    named = gymnasium.spaces.Dict({"b": box, "a": box, "action_mask": gymnasium.spaces.MultiBinary(2)})
    assert actor_keys(named) == critic_keys(named)
    assert set(actor_keys(named)) == {"a", "b"}
