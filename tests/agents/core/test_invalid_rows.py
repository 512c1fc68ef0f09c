"""Steps in which an environment only restarts are no transitions: what they hold teaches nothing."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from gaitway_agents.core.advantage import normalise
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.models.normalizer import RewardScaler, RunningNormalizer
from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import PPOConfig
from gaitway_agents.trainer import evaluate
from on_policy import on_policy_trainer
from tiny_worlds import TinyWorld
from torch import Tensor


def begin(n: int, generator: torch.Generator) -> Tensor:
    return torch.randn(n, 2, generator=generator)


def walk(state: Tensor, action: Tensor, age: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    after = 0.8 * state + 0.3 * action
    return after, 1.0 - after.square().sum(1), after[:, 0] > 0.9


class Restarting(TinyWorld):
    """Environments that cannot restart alone: the step after an end is no transition, and holds ``junk``.

    What is observed after an end is ``junk`` as well; only the final observation itself is what it should be.
    """

    def __init__(self, junk: float, num_envs: int = 16):
        super().__init__(begin, walk, time_limit=5, num_envs=num_envs, observation_dim=2)
        self.junk, self.restarting, self.wasted = junk, torch.zeros(num_envs, dtype=torch.bool), 0
        self.returns = torch.zeros(num_envs)

    def step(self, actions: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor, dict[str, Any]]:
        begun, valid = self.restarting, ~self.restarting
        self.wasted += int(begun.sum())
        state, reward, terminated = self.rule(self.state, actions, self.age)
        state[begun] = self.first(int(begun.sum()), self.generator)
        self.age = torch.where(begun, 0, self.age + 1)
        terminated &= valid
        truncated = valid & ~terminated & (self.age >= 5)
        self.state, self.restarting = state, terminated | truncated
        seen = torch.where(self.restarting[:, None], self.junk, state)
        self.returns = torch.where(begun, 0.0, self.returns + reward)
        info = {
            "final_obs": self._observe(state),
            "_final_obs": self.restarting,
            "episode": {"r": self.returns, "l": self.age},
            "_episode": self.restarting,
        }
        if begun.any():
            info["valid"] = valid
        return self._observe(seen), torch.where(begun, self.junk, reward), terminated, truncated, info


CONFIG = PPOConfig(
    num_steps=12,
    gamma=0.9,
    random_episode_start=False,
    model=ActorCriticConfig(actor_hidden=(16,), critic_hidden=(16,), init_std=0.5),
    optimizer=OptimizerConfig(epochs=3, minibatches=2, learning_rate=1e-2, schedule="constant"),
)
KINDS = {
    "feed-forward": CONFIG,
    "with a memory": dataclasses.replace(
        CONFIG, model=dataclasses.replace(CONFIG.model, recurrent="gru", memory_size=8)
    ),
    "rewards scaled": dataclasses.replace(CONFIG, scale_rewards=True),
    "adaptive rate, advantages normalised in minibatches": dataclasses.replace(
        CONFIG, optimizer=OptimizerConfig(epochs=3, minibatches=4, normalize_advantages="minibatch")
    ),
    "V-trace": dataclasses.replace(CONFIG, advantage="vtrace"),
    "Monte Carlo": dataclasses.replace(CONFIG, advantage="monte_carlo"),
    "advantages estimated anew": dataclasses.replace(CONFIG, recompute_advantages=True),
    "two workers": dataclasses.replace(CONFIG, optimizer=dataclasses.replace(CONFIG.optimizer, workers=2)),
}


def trained(config: PPOConfig, junk: float) -> tuple[OnPolicyTrainer, dict[str, float]]:
    world = Restarting(junk)
    trainer = on_policy_trainer(world, config, seed=0)
    for _ in range(4):
        metrics = trainer.iterate()
    assert world.wasted > 50
    return trainer, {name: value for name, value in metrics.items() if not name.startswith("time/")}


def learnt(trainer: OnPolicyTrainer) -> dict[str, Tensor]:
    """Parameters and all running statistics."""
    found = dict(trainer.policy.state_dict())
    if (scaler := trainer.additions.get("reward_scaler")) is not None:
        found |= {f"reward_scaler.{name}": value for name, value in scaler.state_dict().items()}
    return found


@pytest.mark.parametrize("config", KINDS.values(), ids=KINDS)
def test_what_is_learnt_does_not_depend_on_what_a_restarting_step_holds(config):
    expected, metrics = trained(config, 0.0)
    for junk in (3.0, -500.0):
        trainer, others = trained(config, junk)
        for name, value in learnt(trainer).items():
            assert torch.equal(value, learnt(expected)[name]), name
        assert others == metrics
    assert all(math.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize("kind", ["feed-forward", "with a memory"])
def test_how_a_policy_is_judged_does_not_depend_on_it_either(kind):
    trainer, _ = trained(KINDS[kind], 0.0)
    expected, *others = (evaluate(trainer, Restarting(junk), 50, seed=0) for junk in (0.0, 3.0, -500.0))
    assert all(other == expected for other in others)
    assert len({episode.length for episode in expected}) > 1


def test_only_transitions_enter_the_statistics():
    world = Restarting(7.0)
    trainer = on_policy_trainer(world, dataclasses.replace(CONFIG, scale_rewards=True), seed=0)
    trainer.iterate()
    real = 12 * 16 - world.wasted
    assert trainer.policy.actor_encoder.parts["policy"].normalizer.count.item() == real
    assert trainer.additions["reward_scaler"].scaler.statistics.count.item() == real


def test_a_rollout_without_a_single_transition_teaches_nothing():
    """As after a run was continued: all environments restart at once."""
    world = Restarting(7.0)
    config = dataclasses.replace(CONFIG, num_steps=1, scale_rewards=True)
    trainer = on_policy_trainer(world, config, seed=0)
    trainer.iterate()
    world.restarting[:] = True
    before = {
        name: value.clone() for name, value in learnt(trainer).items() if "normalizer" in name or "statistics" in name
    }
    metrics = trainer.iterate()
    assert all(math.isfinite(value) for value in metrics.values())
    assert all(torch.equal(learnt(trainer)[name], value) for name, value in before.items())
    trainer.iterate()
    assert all(torch.isfinite(value).all() for value in learnt(trainer).values())


def test_advantages_of_fewer_than_two_decisions_are_left_alone():
    advantages = torch.tensor([3.0, 5.0, -1.0])
    assert torch.equal(normalise(advantages, torch.tensor([0.0, 1.0, 0.0])), advantages)
    assert torch.equal(normalise(advantages, torch.zeros(3)), advantages)
    assert torch.equal(normalise(advantages[:1]), advantages[:1])


def test_statistics_of_nothing_are_those_before():
    normalizer = RunningNormalizer(2)
    normalizer.update(torch.randn(10, 2))
    before = {name: value.clone() for name, value in normalizer.state_dict().items()}
    normalizer.update(torch.empty(0, 2))
    assert all(torch.equal(value, before[name]) for name, value in normalizer.state_dict().items())


def test_a_return_goes_on_after_the_restart_and_not_through_it():
    scaler = RewardScaler(1, gamma=0.5)
    rewards, done = torch.tensor([1.0, 1.0, 99.0, 1.0])[:, None], torch.tensor([0, 1, 0, 0], dtype=torch.bool)[:, None]
    scaler(rewards, done, torch.tensor([1, 1, 0, 1], dtype=torch.bool)[:, None])
    assert scaler.returns.tolist() == [1.0]
    assert scaler.statistics.count.item() == 3
    assert scaler.statistics.mean.item() == pytest.approx((1.0 + 1.5 + 1.0) / 3)
