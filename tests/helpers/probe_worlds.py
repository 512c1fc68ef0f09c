"""Small worlds, each of which fails for one kind of bug.

A reward that comes a step later shows a broken critic or discounting; one that depends on action and observation, a
broken actor or batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from gaitway_agents.presets import PPOConfig
from gymnasium import spaces
from on_policy import on_policy_trainer
from tiny_worlds import First, Rule, TinyWorld, always, signs, zeros
from torch import Tensor

GAMMA = 0.9


@dataclass(frozen=True)
class Probe:
    """A world, and what an agent must find out about some observations in it."""

    first: First
    rule: Rule
    observations: tuple[float, ...]
    values: tuple[float, ...] | None = None
    actions: tuple[float, ...] | None = None
    discrete: bool = False

    def make_world(self, **settings: int) -> TinyWorld:
        world = TinyWorld(self.first, self.rule, **settings)
        if self.discrete:
            world.single_action_space = spaces.Discrete(3)
        return world


def delayed(state: Tensor, action: Tensor, age: Tensor):
    """Observation 0, then 1; the reward of 1 comes with the second step."""
    return state + 1.0, state[:, 0], state[:, 0] > 0.5


def matched(state: Tensor, action: Tensor, age: Tensor):
    return state, -(action - state).square()[:, 0], always(len(state))


def sorted_out(state: Tensor, action: Tensor, age: Tensor):
    """Choice 0 is right for -1 and choice 2 for 1."""
    return state, (action == state[:, 0] + 1.0).float(), always(len(state))


PROBES = {
    "delayed reward": Probe(zeros, delayed, (0.0, 1.0), values=(GAMMA, 1.0)),
    "best action for each observation": Probe(signs, matched, (-1.0, 1.0), actions=(-1.0, 1.0)),
    "best choice for each observation": Probe(signs, sorted_out, (-1.0, 1.0), actions=(0.0, 2.0), discrete=True),
}
every_probe = pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES.keys())


def solve(probe: Probe, config: PPOConfig, iterations: int) -> None:
    """Train in the probe's world and check what was found out."""
    trainer = on_policy_trainer(probe.make_world(), config, seed=0)
    for _ in range(iterations):
        trainer.iterate()
    observations = {"policy": torch.tensor(probe.observations)[:, None]}
    if probe.values is not None:
        with torch.no_grad():
            assert trainer.policy.value(observations).tolist() == pytest.approx(probe.values, abs=0.1)
    if probe.actions is not None:
        found, _ = trainer.predict(observations)
        assert found.flatten().tolist() == pytest.approx(probe.actions, abs=0.2)
