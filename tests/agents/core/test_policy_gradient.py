"""The plain policy gradients as presets of the clipped surrogate: what they compute, and that they learn."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from box_spaces import box, boxes
from gaitway_agents import presets
from gaitway_agents.core.advantage import monte_carlo
from gaitway_agents.core.critic import CriticConfig
from gaitway_agents.core.optimizer import PolicyOptimizer
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import IMPALA, REINFORCE, TRPO, VPG, PPOConfig
from gaitway_agents.rollout import EnvRollout
from gymnasium import spaces
from on_policy import on_policy_trainer
from probe_worlds import GAMMA, every_probe, solve
from tiny_worlds import TinyWorld, signs
from torch import Tensor

SMALL = ActorCriticConfig(
    actor_hidden=(16,), critic_hidden=(16,), normalize_observations=False, init_std=0.5, min_std=0.1
)
FAST = dataclasses.replace(
    VPG.optimizer, learning_rate=3e-2, critic=CriticConfig(epochs=8, learning_rate=2e-2)
)  # for worlds of a few steps
VPG_SMALL = dataclasses.replace(VPG, num_steps=8, gamma=GAMMA, model=SMALL, optimizer=FAST)
REINFORCE_SMALL = dataclasses.replace(REINFORCE, num_steps=8, gamma=GAMMA, model=SMALL, optimizer=FAST)


def walk(state: Tensor, action: Tensor, age: Tensor):
    state = 0.9 * state + 0.1 * action
    return state, -state.square()[:, 0], state[:, 0].abs() < 0.7


def rollout_of(trainer: OnPolicyTrainer) -> EnvRollout:
    rollout = trainer.source.collect(0, last=False)
    assert rollout.terminated.any() and rollout.truncated.any()
    return rollout


def gradient_of_update(trainer: OnPolicyTrainer, rollout: EnvRollout) -> list[Tensor]:
    """The actor's gradient, as the update left it."""
    trainer.optimizer.update(trainer._prepare(rollout))
    return [parameter.grad.clone() for parameter in trainer.policy.actor.parameters()]


@pytest.mark.parametrize("config", [VPG_SMALL, REINFORCE_SMALL], ids=["vpg", "reinforce"])
def test_one_step_is_the_gradient_of_the_log_probabilities(config):
    """The clipped surrogate knows nothing of it: at ratio 1 its gradient is the mean of advantage x grad log pi."""
    trainer = on_policy_trainer(TinyWorld(signs, walk, time_limit=6, num_envs=16), config, seed=0)
    policy, rollout = trainer.policy, rollout_of(trainer)
    flat = rollout.flat_observations()
    advantages = trainer._prepare(rollout).advantages
    weights = (advantages - advantages.mean()) / advantages.std()
    mean, std = policy.distribution(flat)
    log_probs = torch.distributions.Normal(mean, std).log_prob(rollout.actions.flatten(0, 1)).sum(1)
    expected = torch.autograd.grad(-(weights * log_probs).mean(), list(policy.actor.parameters()))
    for found, value in zip(gradient_of_update(trainer, rollout), expected, strict=True):
        torch.testing.assert_close(found, value, rtol=1e-4, atol=1e-6)


def test_reinforce_weighs_by_returns_and_its_critic_only_closes_those_that_were_cut():
    trainer = on_policy_trainer(TinyWorld(signs, walk, time_limit=6, num_envs=16), REINFORCE_SMALL, seed=0)
    rollout = rollout_of(trainer)
    batch = trainer._prepare(rollout)
    assert torch.equal(batch.advantages, batch.returns)
    # Values matter where an episode did not end by itself, and nowhere else.
    with torch.no_grad():
        for parameter in trainer.policy.critic.parameters():
            parameter.add_(1.0)
    shifted = trainer._prepare(rollout).returns.view(8, 16)
    changed = (shifted - batch.returns.view(8, 16)).abs() > 1e-6
    ends_well = torch.zeros(8, 16, dtype=torch.bool)
    for t in range(7, -1, -1):
        later = ends_well[t + 1] if t < 7 else torch.zeros(16, dtype=torch.bool)
        done = rollout.terminated[t] | rollout.truncated[t]
        ends_well[t] = torch.where(done, rollout.terminated[t], later)
    assert ends_well.any() and not ends_well.all()
    assert torch.equal(changed, ~ends_well)
    expected = monte_carlo(
        rollout.rewards, torch.zeros(8, 16), rollout.terminated, rollout.terminated | rollout.truncated, GAMMA
    )
    torch.testing.assert_close(batch.returns.view(8, 16)[ends_well], expected[ends_well])


def test_the_critic_of_its_own_leaves_the_policy_alone():
    """With a weight of zero in the loss, all that moves the critic is its own regression."""
    results = []
    for critic in (None, CriticConfig(epochs=3, minibatches=2)):
        torch.manual_seed(0)
        policy = ActorCritic(boxes(policy=1), box(1), SMALL)
        before = policy.critic[0].weight.detach().clone()
        config = dataclasses.replace(VPG_SMALL.optimizer, critic=critic)
        optimizer = PolicyOptimizer(policy, config, torch.Generator().manual_seed(0))
        trainer = on_policy_trainer(TinyWorld(signs, walk, time_limit=6), VPG_SMALL, seed=0)
        statistics = optimizer.update(trainer._prepare(trainer.source.collect(0, last=False)))
        moved = not torch.equal(policy.critic[0].weight, before)
        assert moved == (critic is not None)
        results.append((policy.actor[0].weight.detach().clone(), statistics["policy_loss"]))
    assert torch.equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


def test_a_critic_that_shares_its_encoder_is_refused():
    with pytest.raises(ValueError, match="share_encoder"):
        dataclasses.replace(VPG_SMALL, model=dataclasses.replace(SMALL, share_encoder=True))


@every_probe
@pytest.mark.parametrize("config", [VPG_SMALL, REINFORCE_SMALL], ids=["vpg", "reinforce"])
def test_probes(config, probe):
    solve(probe, config, 30)


def test_an_unknown_advantage_is_refused_by_name():
    with pytest.raises(ValueError, match="advantage 'td'"):
        PPOConfig(advantage="td")


# ---- the presets as they are -----------------------------------------------------------------------------------------

EVERY = {name: value for name, value in vars(presets).items() if isinstance(value, PPOConfig)}


@pytest.mark.parametrize("config", EVERY.values(), ids=EVERY.keys())
def test_a_preset_survives_its_configuration_file(config):
    from gaitway.config.tree import from_tree, to_tree

    assert from_tree(PPOConfig, to_tree(config, PPOConfig)) == config


class Choices(TinyWorld):
    """``TinyWorld`` with two choices for an action."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.single_action_space = spaces.Discrete(2)


def balance(state: Tensor, action: Tensor, age: Tensor):
    """Stay near 0 by pushing left or right, or the episode is over."""
    push = 2.0 * action[:, None].float() - 1.0
    state = 1.1 * state + 0.1 * push
    return state, torch.ones(len(state)), state[:, 0].abs() > 1.0


def near_zero(n: int, generator: torch.Generator) -> Tensor:
    return 0.2 * torch.rand(n, 1, generator=generator) - 0.1


@pytest.mark.parametrize(
    ("config", "iterations"),
    [
        (TRPO, 6),
        (IMPALA, 40),
        (dataclasses.replace(VPG, num_steps=64, optimizer=FAST), 9),
        (dataclasses.replace(REINFORCE, num_steps=64, optimizer=FAST), 9),
    ],
    ids=["trpo", "impala", "vpg", "reinforce"],
)
def test_the_presets_learn_to_balance(config, iterations):
    """Untrained, few episodes last to their time limit. Spinning Up's learning rates would take longer than a test."""
    total = iterations * config.num_steps * 16
    trainer = on_policy_trainer(
        Choices(near_zero, balance, time_limit=40, num_envs=16), config, seed=0, total_steps=total
    )
    assert survivors(trainer) < 0.25
    for _ in range(iterations):
        trainer.iterate()
    assert survivors(trainer) > 0.75


def survivors(trainer: OnPolicyTrainer) -> float:
    """Share of episodes that last to their time limit with actions drawn from the policy."""
    world = Choices(near_zero, balance, time_limit=40, num_envs=64, seed=9)
    observation, _ = world.reset()
    alive = torch.ones(64, dtype=torch.bool)
    for _ in range(39):
        with torch.no_grad():
            action = trainer.policy.head.sample(trainer.policy.distribution(observation), world.generator)
        observation, _, terminated, _, _ = world.step(action)
        alive &= ~terminated
    return alive.float().mean().item()
