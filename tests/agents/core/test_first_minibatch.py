"""Before anything has moved the ratio is 1: what evaluates a rollout computes what made it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.models.heads import ACTION_MASK
from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import PPOConfig
from gymnasium import spaces
from on_policy import on_policy_trainer
from tiny_worlds import TinyWorld
from torch import Tensor


def sizes_of(space: spaces.Space) -> list[int]:
    """Options of each choice; none if actions are numbers."""
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.tolist()
    return [int(space.n)] if isinstance(space, spaces.Discrete) else []


class Walk(TinyWorld):
    """Two numbers that an action pushes; ``space`` is that of the actions, with a mask if they are choices."""

    def __init__(self, space: spaces.Space, seed: int = 0):
        super().__init__(self.begin, self.push, time_limit=7, num_envs=12, observation_dim=2, action_dim=1, seed=seed)
        self.single_action_space = space
        self.sizes = sizes_of(space)
        if self.sizes:
            mask = spaces.MultiBinary(sum(self.sizes))
            self.single_observation_space = spaces.Dict({**self.single_observation_space.spaces, ACTION_MASK: mask})

    @staticmethod
    def begin(n: int, generator: torch.Generator) -> Tensor:
        return torch.randn(n, 2, generator=generator)

    @staticmethod
    def push(state: Tensor, action: Tensor, age: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        push = action.reshape(len(action), -1).to(state.dtype).mean(1, keepdim=True)
        after = 0.8 * state + 0.2 * push
        return after, -after.square().sum(1), after[:, 0] > 1.0

    def step(self, actions: Tensor) -> Any:
        assert all(row in self.single_action_space for row in actions.numpy().astype(self.single_action_space.dtype))
        assert all(mask.gather(1, choice[:, None]).all() for mask, choice in self._chosen(actions))
        return super().step(actions)

    def _chosen(self, actions: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The mask of each choice, and what was chosen."""
        if not self.sizes:
            return []
        mask, choices = (
            self._observe(self.state)[ACTION_MASK],
            actions - torch.as_tensor(self.single_action_space.start),
        )
        return list(zip(mask.split(self.sizes, 1), choices.reshape(len(actions), -1).unbind(1), strict=True))

    def _observe(self, state: Tensor) -> dict[str, Tensor]:
        if not self.sizes:
            return super()._observe(state)
        allowed = [torch.arange(n) <= state[:, :1].abs() * n for n in self.sizes]  # the first option always is
        return super()._observe(state) | {ACTION_MASK: torch.cat(allowed, 1)}


ACTIONS = {
    "Gaussian": spaces.Box(-float("inf"), float("inf"), (3,)),
    "categorical": spaces.Discrete(4),
    "categorical, not from zero": spaces.Discrete(4, start=-2),
    "several choices": spaces.MultiDiscrete([3, 2]),
}
MODELS = {
    "feed-forward": {},
    "recurrent": {"recurrent": "gru", "memory_size": 8},
    "shared encoder": {"share_encoder": True},
    "log std, unimix": {"log_std": True, "unimix": 0.05},
}
CONFIG = PPOConfig(
    num_steps=10,
    gamma=0.9,
    model=ActorCriticConfig(actor_hidden=(16,), critic_hidden=(16,), init_std=0.5, normalize_observations=True),
    optimizer=OptimizerConfig(epochs=2, minibatches=3, learning_rate=1e-2),
)


@pytest.fixture
def _float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def watch(trainer: OnPolicyTrainer) -> list[list[dict[str, float]]]:
    """The statistics of every minibatch, by updates."""
    optimizer = trainer.optimizer
    accumulate, step, update, seen = optimizer._accumulate, optimizer._step, optimizer.update, []

    def watched_update(*args: Any) -> dict[str, float]:
        seen.append([])
        return update(*args)

    def note(statistics: list[float]) -> None:
        seen[-1].append(dict(zip(optimizer.loss.statistics, statistics, strict=True)))

    def watched(batch: Batch) -> Tensor:
        statistics = accumulate(batch)
        note(statistics.tolist())
        return statistics

    def watched_step(*args: Any) -> None:
        if optimizer._written_out is not None and optimizer._written_out._seen:
            note(optimizer._written_out.statistics())
        step(*args)

    optimizer.update, optimizer._accumulate, optimizer._step = watched_update, watched, watched_step
    return seen


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("schedule", ["adaptive", "constant"], ids=["exact KL", "estimated KL"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("actions", ACTIONS)
def test_the_first_minibatch_of_every_update_is_on_policy(actions, model, schedule):
    """Rollouts cut episodes anywhere, and statistics of observations change between them."""
    config = dataclasses.replace(
        CONFIG,
        model=dataclasses.replace(CONFIG.model, **MODELS[model]),
        optimizer=dataclasses.replace(CONFIG.optimizer, schedule=schedule),
    )
    trainer = on_policy_trainer(Walk(ACTIONS[actions]), config, seed=0)
    updates = watch(trainer)
    for _ in range(4):
        trainer.iterate()
    assert [len(minibatches) for minibatches in updates] == [6] * 4
    for first, *_, last in updates:
        assert first["kl"] == pytest.approx(0.0, abs=1e-12)
        assert first["clip_fraction"] == 0.0
        assert last["kl"] > 1e-6  # and then it moves


@pytest.mark.parametrize("actions", ACTIONS)
def test_the_first_ratio_is_one_to_the_last_bits_of_float32(actions):
    trainer = on_policy_trainer(Walk(ACTIONS[actions]), CONFIG, seed=0)
    updates = watch(trainer)
    for _ in range(3):
        trainer.iterate()
    for first, *_ in updates:
        assert first["kl"] == pytest.approx(0.0, abs=1e-6)
        assert first["clip_fraction"] == 0.0
