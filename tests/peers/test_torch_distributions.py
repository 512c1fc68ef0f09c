"""Closed forms of the Gaussian policy against torch.distributions."""

from __future__ import annotations

import torch
from box_spaces import box, boxes
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.objective import gaussian_kl
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.heads import gaussian_log_prob
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Independent, Normal, kl_divergence


@given(st.integers(0, 2**31), st.integers(1, 30), st.integers(1, 12))
def test_kl_and_log_probability(seed, rows, dim):
    torch.manual_seed(seed)
    old_mean, mean, actions = torch.randn(3, rows, dim, dtype=torch.float64)
    old_std, std = torch.rand(2, rows, dim, dtype=torch.float64) + 0.05
    old, new = Independent(Normal(old_mean, old_std), 1), Independent(Normal(mean, std), 1)
    torch.testing.assert_close(gaussian_kl(old_mean, old_std, mean, std), kl_divergence(old, new))
    torch.testing.assert_close(gaussian_log_prob(mean, std, actions), new.log_prob(actions))


def test_evaluation_of_a_policy():
    policy = ActorCritic(
        boxes(policy=4), box(3), ActorCriticConfig(actor_hidden=(8,), critic_hidden=(8,), init_std=0.4)
    )
    observations, actions = {"policy": torch.randn(10, 4)}, torch.randn(10, 3)
    batch = Batch(observations=observations, actions=actions, log_probs=torch.zeros(10), advantages=torch.zeros(10))
    new = policy.evaluate(batch)
    reference = Independent(Normal(policy.export_actor()(observations["policy"]), torch.full((3,), 0.4)), 1)
    torch.testing.assert_close(new.log_probs, reference.log_prob(actions))
    torch.testing.assert_close(new.entropy, reference.entropy())
