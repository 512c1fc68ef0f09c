"""Sources of rollouts from outside: the same trainer learns from a recording, and from another process."""

from __future__ import annotations

import dataclasses
import multiprocessing
import pickle
from typing import Any

import pytest
import torch
from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import PPO_CARTPOLE
from gaitway_agents.rollout import rollout_from_state, rollout_state
from gaitway_agents.source import source_of
from gaitway_agents.vector.adapt import adapt
from gymnasium import make_vec

CONFIG = dataclasses.replace(PPO_CARTPOLE, learning_rate_final=None)
UPDATES = 4


def make_env() -> Any:
    env = adapt(make_vec("CartPole-v1", num_envs=8, vectorization_mode="sync"))
    env.reset(seed=3)
    return env


class Recorded:
    """Rollouts that were gathered before, played back in order."""

    def __init__(self, like: Any, rollouts: list[Any]):
        self.num_envs, self.device = like.num_envs, like.device
        self.single_observation_space, self.single_action_space = (
            like.single_observation_space,
            like.single_action_space,
        )
        self.rollouts, self.versions = rollouts, []

    def begin(self, policy, generator, symmetry):
        pass

    def collect(self, steps, *, last):
        return self.rollouts.pop(0)

    def publish(self, weights, version):
        self.versions.append(version)

    def state_dict(self):
        return {"rollouts": len(self.rollouts)}

    def load_state_dict(self, state):
        del self.rollouts[: len(self.rollouts) - state["rollouts"]]

    def close(self):
        pass


class Elsewhere(Recorded):
    """Environments in another process, which is sent weights and sends rollouts."""

    def __init__(self, like: Any):
        super().__init__(like, [])
        self.mine, theirs = multiprocessing.get_context("spawn").Pipe()
        self.process = multiprocessing.get_context("spawn").Process(target=act, args=(theirs,), daemon=True)
        self.process.start()

    def begin(self, policy, generator, symmetry):
        self.mine.send(pickle.dumps((policy, generator.get_state())))

    def collect(self, steps, *, last):
        self.mine.send((steps, {name: value.clone().numpy() for name, value in self.weights.items()}))
        return rollout_from_state(pickle.loads(self.mine.recv_bytes()))

    def publish(self, weights, version):
        super().publish(weights, version)
        self.weights = weights

    def close(self):
        self.mine.send(None)
        self.process.join(10.0)


def act(pipe: Any) -> None:
    policy, state = pickle.loads(pipe.recv())
    generator = torch.Generator()
    generator.set_state(state)
    source = source_of(make_env(), CONFIG)
    source.begin(policy, generator, None)
    while (order := pipe.recv()) is not None:
        steps, weights = order
        policy.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()})
        pipe.send_bytes(pickle.dumps(rollout_state(source.collect(steps, last=False))))


def learnt(source: Any) -> tuple[OnPolicyTrainer, list[dict[str, float]]]:
    trainer = OnPolicyTrainer(source, CONFIG, seed=0)
    return trainer, [trainer.iterate() for _ in range(UPDATES)]


def test_a_recording_teaches_what_its_environments_taught():
    source, gathered = source_of(make_env(), CONFIG), []
    collect = source.collect
    source.collect = lambda steps, last: gathered.append(collect(steps, last=last)) or gathered[-1]
    live, _ = learnt(source)
    recorded = Recorded(source, list(gathered))
    trainer = OnPolicyTrainer(recorded, CONFIG, seed=0)
    after = []
    for _ in gathered:
        trainer.generator.set_state(live.generator.get_state())  # who plays back draws no actions
        trainer.iterate()
        after.append(trainer.steps)
    assert recorded.versions == [0, *after] and trainer.steps == live.steps and trainer.env is None
    moved = [(a - b).abs().max() for a, b in zip(trainer.policy.parameters(), live.policy.parameters(), strict=True)]
    assert max(moved) < 0.1  # the same data, in other minibatches
    state = trainer.state_dict()
    assert state["rollouts"] == 0 and state["steps"] == trainer.steps


def test_environments_in_another_process():
    source = Elsewhere(source_of(make_env(), CONFIG))
    trainer, metrics = learnt(source)
    source.close()
    assert source.process.exitcode == 0
    assert trainer.steps == UPDATES * CONFIG.num_steps * 8 and len(trainer.pop_episodes()) > 10
    assert all(row["learn/kl"] >= 0.0 and row["rollout/reward"] == 1.0 for row in metrics)


def test_what_is_no_source_is_refused_by_name():
    with pytest.raises(ValueError, match=r"has no .*begin.*publish.*source_of\(env, config\)"):
        OnPolicyTrainer(make_env(), CONFIG, seed=0)
