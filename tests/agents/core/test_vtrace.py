"""V-trace against its definition, against GAE where they must agree, and as the trainer uses it."""

from __future__ import annotations

import dataclasses

import torch
from gaitway_agents.core.advantage import gae
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.core.vtrace import vtrace
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.presets import PPOConfig
from hypothesis import given
from hypothesis import strategies as st
from on_policy import on_policy_trainer
from probe_worlds import GAMMA, every_probe, solve
from tiny_worlds import TinyWorld, signs
from torch import Tensor

CONFIG = PPOConfig(
    num_steps=8,
    gamma=GAMMA,
    lam=1.0,
    advantage="vtrace",
    model=ActorCriticConfig(
        actor_hidden=(16,), critic_hidden=(16,), normalize_observations=False, init_std=0.5, min_std=0.1
    ),
    optimizer=OptimizerConfig(
        epochs=1,
        minibatches=4,
        learning_rate=2e-2,
        schedule="constant",
        clip_value_loss=False,
        entropy_coefficient=0.0,
    ),
)


def random_rollout(seed: int, steps: int, envs: int) -> dict[str, Tensor]:
    """Rollout with random episode ends; the next value is the next step's, except at an end."""
    g = torch.Generator().manual_seed(seed)
    rewards, values, finals = torch.randn(3, steps, envs, generator=g, dtype=torch.float64)
    last = torch.randn(1, envs, generator=g, dtype=torch.float64)
    terminated = torch.rand(steps, envs, generator=g) < 0.15
    done = terminated | (torch.rand(steps, envs, generator=g) < 0.15)
    next_values = torch.where(done, finals, torch.cat((values[1:], last)))
    return {"rewards": rewards, "values": values, "next_values": next_values, "terminated": terminated, "done": done}


def random_ratios(seed: int, steps: int, envs: int) -> Tensor:
    g = torch.Generator().manual_seed(seed + 1)
    return torch.randn(steps, envs, generator=g, dtype=torch.float64).exp()


def slow_vtrace(
    rollout: dict[str, Tensor], ratios: Tensor, gamma: float, lam: float, rho_bar: float, c_bar: float
) -> tuple[Tensor, Tensor]:
    """Equation 1 of the paper, a sum over the rest of the episode for each step, and the gradient's weights."""
    rewards, values, next_values, terminated, done = rollout.values()
    steps, envs = rewards.shape
    targets, advantages = values.clone(), torch.empty_like(values)
    for n in range(envs):
        for s in range(steps):
            weight = 1.0
            for t in range(s, steps):
                bootstrap = 0.0 if terminated[t, n] else gamma * next_values[t, n]
                rho = min(rho_bar, float(ratios[t, n]))
                targets[s, n] += weight * rho * (rewards[t, n] + bootstrap - values[t, n])
                weight *= gamma * lam * min(c_bar, float(ratios[t, n]))
                if done[t, n]:
                    break
    for n in range(envs):
        for s in range(steps):
            following = 0.0 if terminated[s, n] else next_values[s, n]
            if s + 1 < steps and not done[s, n]:
                following = lam * targets[s + 1, n] + (1.0 - lam) * values[s + 1, n]
            rho = min(rho_bar, float(ratios[s, n]))
            advantages[s, n] = rho * (rewards[s, n] + gamma * following - values[s, n])
    return advantages, targets


unit = st.floats(0, 1)


@given(st.integers(0, 2**31), st.integers(1, 10), st.integers(1, 3), unit, unit, st.floats(0.1, 3), st.floats(0.1, 3))
def test_equals_the_definition(seed, steps, envs, gamma, lam, rho_bar, c_bar):
    rollout, ratios = random_rollout(seed, steps, envs), random_ratios(seed, steps, envs)
    found = vtrace(**rollout, ratios=ratios, gamma=gamma, lam=lam, rho_bar=rho_bar, c_bar=c_bar)
    for a, b in zip(found, slow_vtrace(rollout, ratios, gamma, lam, rho_bar, c_bar), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(1, 4), unit, unit)
def test_on_policy_it_is_gae(seed, steps, envs, gamma, lam):
    rollout = random_rollout(seed, steps, envs)
    expected = gae(**rollout, gamma=gamma, lam=lam)
    advantages, targets = vtrace(**rollout, ratios=torch.ones_like(expected), gamma=gamma, lam=lam)
    torch.testing.assert_close(advantages, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(targets, rollout["values"] + expected, rtol=1e-9, atol=1e-9)


def test_by_hand():
    """One step, discounts of a half: rewards 1, 2, 3, values 0, and ratios 1/2, 2, 1."""
    rewards, ratios = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[0.5], [2.0], [1.0]])
    zero, no = torch.zeros(3, 1), torch.zeros(3, 1, dtype=torch.bool)
    advantages, targets = vtrace(rewards, zero, zero, no, no, ratios, 0.5)
    assert targets.flatten().tolist() == [0.5 * (1.0 + 0.5 * 3.5), 2.0 + 0.5 * 3.0, 3.0]
    assert advantages.flatten().tolist() == [0.5 * (1.0 + 0.5 * 3.5), 2.0 + 0.5 * 3.0, 3.0]


def test_an_impossible_action_teaches_nothing_and_hides_what_follows():
    rollout = random_rollout(3, 6, 2) | {"done": torch.zeros(6, 2, dtype=torch.bool)}
    rollout["terminated"] = rollout["done"]
    ratios = torch.ones(6, 2)
    ratios[2] = 0.0
    advantages, targets = vtrace(**rollout, ratios=ratios, gamma=0.9)
    assert torch.equal(targets[2], rollout["values"][2])
    assert not advantages[2].any()
    rollout["rewards"][3:] += 100.0
    _, changed = vtrace(**rollout, ratios=ratios, gamma=0.9)
    assert torch.equal(changed[:3], targets[:3])
    assert not torch.equal(changed[3:], targets[3:])


def test_termination_has_no_value_and_truncation_keeps_the_final_one():
    rewards, values, next_values = torch.ones(2, 1), torch.zeros(2, 1), torch.full((2, 1), 10.0)
    end, no = torch.tensor([[True], [False]]), torch.zeros(2, 1, dtype=torch.bool)
    dead, _ = vtrace(rewards, values, next_values, end, end, torch.ones(2, 1), 0.5)
    cut, _ = vtrace(rewards, values, next_values, no, end, torch.ones(2, 1), 0.5)
    assert dead.flatten().tolist() == [1.0, 6.0]
    assert cut.flatten().tolist() == [6.0, 6.0]


# ---- in the trainer --------------------------------------------------------------------------------------------------


def walk(state: Tensor, action: Tensor, age: Tensor):
    state = 0.9 * state + 0.1 * action
    return state, -state.square()[:, 0], state[:, 0].abs() > 1.0


def test_the_gradient_is_that_of_the_paper():
    """A stale rollout's first gradient of the policy: mean of rho (r + g v' - V) grad log pi."""
    one = dataclasses.replace(
        CONFIG.optimizer, epochs=1, minibatches=1, value_coefficient=0.0, normalize_advantages="none", max_grad_norm=1e9
    )
    config = dataclasses.replace(CONFIG, optimizer=one)
    trainer = on_policy_trainer(TinyWorld(signs, walk, time_limit=6, num_envs=16), config, seed=0)
    rollout = trainer.source.collect(0, last=False)
    with torch.no_grad():
        for parameter in trainer.policy.actor.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    policy, flat = trainer.policy, {"policy": rollout.observations["policy"].flatten(0, 1)}
    now = policy.head.log_prob(policy.distribution(flat), rollout.actions.flatten(0, 1)).view(8, 16)
    behaviour = policy.head.log_prob(rollout.distribution, rollout.actions)
    ratios = (now - behaviour).exp().detach()
    assert ratios.min() < 0.9 and ratios.max() > 1.1
    with torch.no_grad():
        values = policy.value(flat).view(8, 16)
        next_values = torch.cat((values[1:], policy.value(rollout.following)[None]))
        for t, rows, final in rollout.finals:
            next_values[t, rows] = policy.value(final)
    done = rollout.terminated | rollout.truncated
    assert rollout.truncated.any()
    episode = dict(
        zip(
            ("rewards", "values", "next_values", "terminated", "done"),
            (rollout.rewards, values, next_values, rollout.terminated, done),
            strict=True,
        )
    )
    advantages, targets = slow_vtrace(episode, ratios, GAMMA, 1.0, 1.0, 1.0)
    parameters = list(policy.actor.parameters())
    expected = torch.autograd.grad(-(advantages * now).mean(), parameters)

    batch = trainer._prepare(rollout)
    torch.testing.assert_close(batch.returns.view(8, 16), targets, rtol=1e-4, atol=1e-5)
    trainer.optimizer.update(batch)
    for parameter, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-6)


@every_probe
def test_probes(probe):
    solve(probe, CONFIG, 50)
