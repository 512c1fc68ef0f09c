"""The A2C preset against Stable-Baselines3's A2C: updates, and a whole iteration from the first step on."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from box_spaces import boxes
from gaitway_agents.core.optimizer import PolicyOptimizer
from gaitway_agents.models.actor_critic import ActorCritic
from gaitway_agents.presets import A2C
from gymnasium import spaces
from on_policy import on_policy_trainer
from tiny_worlds import TinyWorld
from torch import Tensor

pytest.importorskip("stable_baselines3")
from sb3_copy import Still, assert_same_parameters, fill, make_batch, sb3_copy, vector
from stable_baselines3 import A2C as Theirs

ROWS, OBS = 40, 5
BOUNDED = spaces.Box(-9.0, 9.0, (3,), np.float32)


@pytest.fixture(autouse=True)
def _float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def test_the_preset_has_its_defaults():
    theirs, ours = Theirs("MlpPolicy", Still(OBS, BOUNDED), device="cpu"), A2C.optimizer
    assert (A2C.num_steps, A2C.gamma, A2C.lam) == (theirs.n_steps, theirs.gamma, theirs.gae_lambda)
    assert (ours.value_coefficient, ours.entropy_coefficient) == (theirs.vf_coef, theirs.ent_coef)
    assert ours.max_grad_norm == theirs.max_grad_norm
    assert ours.normalize_advantages == "none" and not theirs.normalize_advantage
    (settings,) = theirs.policy.optimizer.param_groups
    assert ours.algorithm == "rmsprop" and isinstance(theirs.policy.optimizer, torch.optim.RMSprop)
    assert (ours.learning_rate, ours.eps, ours.betas[1]) == (settings["lr"], settings["eps"], settings["alpha"])
    assert not settings["momentum"] and not settings["centered"] and not settings["weight_decay"]
    policy = ActorCritic(boxes(policy=OBS), BOUNDED, A2C.model)
    shapes = sorted(tuple(p.shape) for p in policy.parameters())
    assert shapes == sorted(tuple(p.shape) for p in theirs.policy.parameters())
    assert type(policy.actor[1]) is type(theirs.policy.mlp_extractor.policy_net[1])
    torch.testing.assert_close(policy.head.std, theirs.policy.log_std.exp().double())
    for layer, gain in ((policy.actor[0], 2.0**0.5), (policy.actor[-1], 0.01), (policy.critic[-1], 1.0)):
        assert torch.linalg.matrix_norm(layer.weight, 2).item() == pytest.approx(gain, rel=1e-5)
        assert not layer.bias.any()


@pytest.mark.parametrize(
    "change",
    [{}, {"entropy_coefficient": 0.01}, {"max_grad_norm": 0.05}, {"max_grad_norm": 100.0}],
    ids=["defaults", "entropy bonus", "tight gradient clip", "no gradient clip"],
)
@pytest.mark.parametrize(
    "space", [BOUNDED, spaces.Discrete(4), spaces.MultiDiscrete([3, 2, 4])], ids=lambda s: type(s).__name__
)
def test_parameters_after_updates(space, change):
    """Three in a row: RMSprop's running squares and the policy that acts change in between."""
    policy = ActorCritic(boxes(policy=OBS), space, A2C.model)
    config = dataclasses.replace(A2C.optimizer, **change)
    theirs = sb3_copy(
        Theirs, policy, space, ROWS, ent_coef=config.entropy_coefficient, max_grad_norm=config.max_grad_norm
    )
    optimizer, start = PolicyOptimizer(policy, config), vector(policy)
    for _ in range(3):
        batch = make_batch(policy, ROWS)
        fill(theirs, batch)
        statistics = optimizer.update(batch)
        theirs.train()
        assert_same_parameters(policy, theirs, 1e-9)
        logged = theirs.logger.name_to_value
        assert statistics["value_loss"] == pytest.approx(logged["train/value_loss"], rel=1e-5)
        assert statistics["entropy"] == pytest.approx(-logged["train/entropy_loss"], rel=1e-5)
        assert statistics["clip_fraction"] == 0.0
        assert statistics["kl"] == pytest.approx(0.0, abs=1e-12)
    assert (vector(policy) - start).abs().max() > 1e-3


class Recorded(TinyWorld):
    """A walk in two dimensions that ends by itself or by the clock, and remembers all that passed."""

    def __init__(self) -> None:
        super().__init__(self.begin, self.go, time_limit=3, num_envs=8, observation_dim=2, action_dim=2)
        self.passed: list[tuple[Tensor, ...]] = []

    @staticmethod
    def begin(n: int, generator: torch.Generator) -> Tensor:
        return torch.randn(n, 2, generator=generator).float().double()

    @staticmethod
    def go(state: Tensor, action: Tensor, age: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        after = (0.5 * state + action).float().double()
        return after, after[:, 0] - state[:, 1].square(), after[:, 1].abs() > 1.5

    def step(self, actions: Tensor):
        before = self.state.clone()
        observation, reward, terminated, truncated, info = super().step(actions)
        self.passed.append((before, actions, reward, terminated, truncated & ~terminated, info["final_obs"]["policy"]))
        return observation, reward, terminated, truncated & ~terminated, info


def test_a_whole_iteration():
    """Their buffer and networks get what our environments went through; values, returns and step are their own.

    They see a rollout as it is and add g V(final observation) to the reward of a step that a time limit cut.
    """
    world = Recorded()
    trainer = on_policy_trainer(world, A2C, seed=0)
    theirs = sb3_copy(
        Theirs, trainer.policy, spaces.Box(-9.0, 9.0, (2,), np.float32), A2C.num_steps, num_envs=world.num_envs
    )
    buffer, starts = theirs.rollout_buffer, torch.ones(world.num_envs)
    ends, start = torch.zeros(2, dtype=torch.int64), vector(trainer.policy)
    for _ in range(4):
        before, world.passed = trainer.steps, []
        trainer.iterate()
        assert trainer.steps - before == A2C.num_steps * world.num_envs
        buffer.reset()
        widen(buffer)
        with torch.no_grad():
            for seen, action, reward, terminated, truncated, final in world.passed:
                values, log_probs, _ = theirs.policy.evaluate_actions(seen, action)
                reward = reward + A2C.gamma * theirs.policy.predict_values(final).flatten() * truncated
                buffer.add(seen.numpy(), action.numpy(), reward.numpy(), starts.numpy(), values, log_probs)
                starts = (terminated | truncated).double()
                ends += torch.stack((terminated.sum(), truncated.sum()))
            last = theirs.policy.predict_values(world.state)
        buffer.compute_returns_and_advantage(last, starts.numpy())
        theirs.train()
        # Their buffer hands out actions in float32.
        assert_same_parameters(trainer.policy, theirs, 1e-6)
    assert ends.min() > 5
    assert (vector(trainer.policy) - start).abs().max() > 1e-3


def widen(buffer: object) -> None:
    for name, value in vars(buffer).items():
        if isinstance(value, np.ndarray) and value.dtype == np.float32:
            setattr(buffer, name, value.astype(np.float64))
