"""The same tensors into Stable-Baselines3's PPO and into Gaitway's: advantages and a whole update.

Its clipped value loss has no maximum over the unclipped one as ours has (after OpenAI's and rsl_rl's), so value losses
are compared unclipped, which is its default.
"""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
import torch
from box_spaces import boxes
from gaitway_agents.core.advantage import gae
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gymnasium import spaces

pytest.importorskip("stable_baselines3")
from sb3_copy import assert_same_parameters, fill, make_batch, sb3_copy, vector
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer

STEPS, ENVS, OBS, ACTIONS, HIDDEN = 8, 4, 5, 3, (16, 8)
OBS_SPACE, ACTION_SPACE = (gymnasium.spaces.Box(-9.0, 9.0, (n,), np.float32) for n in (OBS, ACTIONS))


@pytest.mark.parametrize(("gamma", "lam"), [(0.97, 0.9), (0.99, 1.0), (0.9, 0.0)])
def test_advantages_and_returns(gamma, lam):
    """Its collector adds g V(final observation) to the last reward of a truncated episode and calls that done."""
    rewards, values, finals = torch.randn(3, STEPS, ENVS)
    last_values = torch.randn(ENVS)
    truncated = torch.rand(STEPS, ENVS) < 0.2
    terminated = (torch.rand(STEPS, ENVS) < 0.2) & ~truncated
    done = terminated | truncated
    assert truncated.any() and terminated.any()
    buffer = RolloutBuffer(STEPS, OBS_SPACE, ACTION_SPACE, "cpu", gae_lambda=lam, gamma=gamma, n_envs=ENVS)
    starts = np.concatenate((np.ones((1, ENVS)), done.numpy()[:-1]))
    blank = np.zeros((ENVS, OBS)), np.zeros((ENVS, ACTIONS))
    for t in range(STEPS):
        reward = rewards[t] + gamma * finals[t] * truncated[t]
        buffer.add(*blank, reward.numpy(), starts[t], values[t], torch.zeros(ENVS))
    buffer.compute_returns_and_advantage(last_values, done[-1].numpy())

    next_values = torch.where(truncated, finals, torch.cat((values[1:], last_values[None])))
    advantages = gae(rewards, values, next_values, terminated, done, gamma, lam)
    torch.testing.assert_close(torch.from_numpy(buffer.advantages), advantages, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(torch.from_numpy(buffer.returns), advantages + values, rtol=1e-5, atol=1e-5)


@pytest.fixture
def _float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def make_policy(action_space: spaces.Space) -> ActorCritic:
    config = ActorCriticConfig(
        actor_hidden=HIDDEN,
        critic_hidden=HIDDEN,
        activation="tanh",
        normalize_observations=False,
        init_std=math.exp(-0.5),
        log_std=True,
    )
    return ActorCritic(boxes(policy=OBS), action_space, config)


# Its boxes must have bounds, on which nothing here depends.
ACTION_SPACES = {
    "Box": ACTION_SPACE,
    "Discrete": spaces.Discrete(4),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2, 4]),
}


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize(
    ("minibatches", "normalize", "grad_norm"),
    [(4, False, 0.5), (1, True, 0.5), (4, True, 0.5), (4, False, 0.01), (4, True, 0.01)],
    ids=[
        "minibatches",
        "normalised advantages",
        "normalised in each minibatch",
        "tight gradient clip",
        "normalised, tight gradient clip",
    ],
)
@pytest.mark.parametrize("kind", ACTION_SPACES)
def test_parameters_after_an_update(kind, minibatches, normalize, grad_norm, monkeypatch):
    policy, rows = make_policy(ACTION_SPACES[kind]), STEPS * ENVS
    batch = make_batch(policy, rows)
    ppo = sb3_copy(
        PPO,
        policy,
        ACTION_SPACES[kind],
        rows,
        batch_size=rows // minibatches,
        n_epochs=3,
        learning_rate=3e-3,
        ent_coef=0.01,
        vf_coef=0.5,
        max_grad_norm=grad_norm,
        normalize_advantage=normalize,
    )
    fill(ppo, batch)
    order = torch.randperm(rows)
    monkeypatch.setattr(torch, "randperm", lambda n, **_: order)
    monkeypatch.setattr(np.random, "permutation", lambda n: order.numpy())
    config = OptimizerConfig(
        epochs=3,
        minibatches=minibatches,
        learning_rate=3e-3,
        schedule="constant",
        entropy_coefficient=0.01,
        value_coefficient=0.5,
        clip_value_loss=False,
        normalize_advantages="minibatch" if normalize else "none",
        clip_groups=False,
        max_grad_norm=grad_norm,
        eps=1e-5,
    )
    start = vector(policy)
    statistics = PolicyOptimizer(policy, config).update(batch)
    ppo.train()
    assert_same_parameters(policy, ppo, 1e-9)
    assert (vector(policy) - start).abs().max() > 1e-3
    logged = ppo.logger.name_to_value
    assert statistics["value_loss"] == pytest.approx(logged["train/value_loss"], rel=1e-4)
    assert statistics["policy_loss"] == pytest.approx(logged["train/policy_gradient_loss"], rel=1e-3, abs=1e-6)
    assert statistics["clip_fraction"] == pytest.approx(logged["train/clip_fraction"], abs=1e-6)
    assert statistics["entropy"] == pytest.approx(-logged["train/entropy_loss"], rel=1e-5)
