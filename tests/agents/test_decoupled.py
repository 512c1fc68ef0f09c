"""Acting and learning at the same time: which policy acts when, and that no thread's speed shows in the result."""

from __future__ import annotations

import dataclasses
import io
import random
import time
from concurrent.futures import Future

import pytest
import torch
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.core.trust_region import TrustRegionConfig
from gaitway_agents.decoupled import DecoupledCollector
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import PPOConfig
from gaitway_agents.rollout import EnvRollout
from on_policy import on_policy_trainer
from probe_worlds import GAMMA, every_probe, solve
from tiny_worlds import TinyWorld, signs
from torch import Tensor

CONFIG = PPOConfig(
    num_steps=8,
    gamma=GAMMA,
    decoupled=True,
    scale_rewards=True,
    model=ActorCriticConfig(actor_hidden=(16,), critic_hidden=(16,), init_std=0.5, min_std=0.1),
    optimizer=OptimizerConfig(epochs=2, minibatches=3, chunk_size=20, entropy_coefficient=0.0),
)


def walk(state: Tensor, action: Tensor, age: Tensor):
    state = 0.9 * state + 0.1 * action
    return state, -state.square()[:, 0], state[:, 0].abs() < 0.7


def make_world(num_envs: int = 32, **settings: int) -> TinyWorld:
    return TinyWorld(signs, walk, time_limit=6, num_envs=num_envs, **settings)


class CountingWorld(TinyWorld):
    """Counts its steps, reports episodes, and fails at the step ``fails_at``."""

    steps, fails_at = 0, -1

    def step(self, actions: Tensor):
        self.steps += 1
        if self.steps == self.fails_at:
            raise RuntimeError("the simulator is gone")
        age = self.age.clone()
        observation, reward, terminated, truncated, info = super().step(actions)
        done = terminated | truncated
        info |= {"episode": {"r": age.float(), "l": age + 1}, "_episode": done}
        return observation, reward, terminated, truncated, info


def state_bytes(trainer: OnPolicyTrainer) -> bytes:
    """The whole state of a training as one string."""
    buffer = io.BytesIO()
    torch.save(trainer.state_dict(), buffer)
    buffer.seek(0)
    found: list[bytes] = []

    def collect(value: object) -> None:
        if isinstance(value, Tensor):
            found.append(value.numpy().tobytes())
        elif isinstance(value, dict):
            [collect(v) for k, v in value.items() if k != "timing"]
        elif isinstance(value, list | tuple):
            [collect(v) for v in value]
        else:
            found.append(repr(value).encode())

    collect(torch.load(buffer, weights_only=True))
    return b"|".join(found)


def trained(iterations: int, config: PPOConfig = CONFIG, world: TinyWorld | None = None) -> OnPolicyTrainer:
    trainer = on_policy_trainer(world or make_world(), config, seed=0)
    for _ in range(iterations):
        trainer.iterate()
    return trainer


# ---- which policy acts when ------------------------------------------------------------------------------------------


def test_a_rollout_is_of_the_policy_before_the_update_before():
    """Rollouts 0 and 1 are acted by the first policy, 2 by that after one update, 3 by that after two, ..."""
    trainer = on_policy_trainer(make_world(), CONFIG, seed=0)
    policies, rollouts = [], []
    hand_out = trainer.source.collect

    def spy(steps: int, *, last: bool) -> EnvRollout:
        rollouts.append(hand_out(steps, last=last))
        return rollouts[-1]

    trainer.source.collect = spy
    for _ in range(5):
        policies.append({name: value.clone() for name, value in trainer.policy.state_dict().items()})
        trainer.iterate()
    judge = on_policy_trainer(make_world(), CONFIG, seed=1).policy
    for i, rollout in enumerate(rollouts):
        acted_by = []
        for policy in policies:
            judge.load_state_dict(policy)
            with torch.no_grad():
                mean, _ = judge.distribution(rollout.flat_observations())
            acted_by.append(torch.allclose(mean, rollout.distribution[0].flatten(0, 1), atol=1e-5))
        expected = max(0, i - 1)
        assert acted_by == [k == expected for k in range(5)]


def test_the_batch_knows_the_probabilities_of_the_policy_that_acted():
    """So that ratios, and with them the clipping, lead from there: the first is 1 only in the first update."""
    one = dataclasses.replace(CONFIG.optimizer, epochs=1, minibatches=1, schedule="constant", learning_rate=1e-2)
    trainer = on_policy_trainer(make_world(), dataclasses.replace(CONFIG, optimizer=one), seed=0)
    assert trainer.iterate()["learn/kl"] == pytest.approx(0.0, abs=1e-6)
    assert trainer.iterate()["learn/kl"] > 1e-4


# ---- the same result every time --------------------------------------------------------------------------------------


def dawdle(function):
    """``function`` after a random pause, of another length in every call of every test."""

    def slow(*args, **settings):
        time.sleep(random.SystemRandom().uniform(0.0, 0.004))
        return function(*args, **settings)

    return slow


@pytest.mark.parametrize(("workers", "advantage"), [(1, "gae"), (2, "vtrace")])
def test_no_threads_speed_shows_in_the_result(workers, advantage, monkeypatch):
    optimizer = dataclasses.replace(CONFIG.optimizer, workers=workers)
    config = dataclasses.replace(CONFIG, optimizer=optimizer, advantage=advantage)
    expected = state_bytes(trained(4, config))
    for slow_actor, slow_learner in ((True, False), (False, True)):
        with monkeypatch.context() as patch:
            if slow_actor:
                patch.setattr(TinyWorld, "step", dawdle(TinyWorld.step))
            if slow_learner:
                patch.setattr(OnPolicyTrainer, "_prepare", dawdle(OnPolicyTrainer._prepare))
                patch.setattr(PolicyOptimizer, "_accumulate", dawdle(PolicyOptimizer._accumulate))
            assert state_bytes(trained(4, config)) == expected


class AtOnce:
    """An executor without a thread."""

    def submit(self, function, *args) -> Future:
        future: Future = Future()
        future.set_result(function(*args))
        return future


def test_without_a_thread_the_result_is_the_same():
    """A whole rollout before the learner's first operation: the order that threads must not be able to change."""
    trainer = on_policy_trainer(make_world(), CONFIG, seed=0)
    assert isinstance(trainer.source, DecoupledCollector)
    trainer.source._thread = AtOnce()
    for _ in range(5):
        trainer.iterate()
    assert state_bytes(trainer) == state_bytes(trained(5))


def test_it_is_another_training_than_taking_turns():
    """One update of delay is a different algorithm, and a seed of its own for the actor."""
    decoupled = trained(4).policy.state_dict()
    in_turn = trained(4, dataclasses.replace(CONFIG, decoupled=False)).policy.state_dict()
    assert not all(torch.equal(decoupled[name], in_turn[name]) for name in in_turn)


def test_a_memory_and_a_trust_region():
    config = dataclasses.replace(
        CONFIG,
        model=dataclasses.replace(CONFIG.model, recurrent="gru", memory_size=8),
        optimizer=TrustRegionConfig(),
    )

    def run() -> OnPolicyTrainer:
        trainer = on_policy_trainer(make_world(12), config, seed=0)
        for _ in range(3):
            trainer.iterate()
        return trainer

    first = run()
    assert first.steps == 3 * 8 * 12
    assert state_bytes(first) == state_bytes(run())


# ---- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("advantage", ["gae", "vtrace"])
def test_a_run_continued_from_its_state_is_the_uninterrupted_run_bit_for_bit(advantage):
    config = dataclasses.replace(CONFIG, advantage=advantage)
    uninterrupted = trained(6, config)
    trainer = trained(3, config)
    buffer = io.BytesIO()
    torch.save(trainer.state_dict(), buffer)
    buffer.seek(0)
    resumed = on_policy_trainer(make_world(), config, seed=77)
    resumed.iterate()  # a rollout is under way when the state comes
    resumed.load_state_dict(torch.load(buffer, weights_only=True))
    for _ in range(3):
        trainer.iterate()  # after the state was taken from it
        resumed.iterate()
    assert state_bytes(resumed) == state_bytes(trainer) == state_bytes(uninterrupted)


def test_steps_and_episodes_are_counted_when_they_are_learnt_from():
    """And no rollout begins that nobody will learn from."""
    world = CountingWorld(signs, walk, time_limit=6, num_envs=32)
    trainer = on_policy_trainer(world, CONFIG, seed=0, total_steps=3 * 8 * 32)
    for i in (1, 2, 3):
        trainer.iterate()
        assert trainer.steps == i * 8 * 32
        episodes = trainer.pop_episodes()
        assert episodes and all((i - 1) * 256 < e.steps <= i * 256 for e in episodes)
        assert all(e.ret == e.length - 1 for e in episodes)
    trainer.state_dict()
    assert world.steps == 3 * 8


def test_an_error_of_the_environment_reaches_the_caller():
    world = CountingWorld(signs, walk, time_limit=6, num_envs=32)
    world.fails_at = 12
    trainer = on_policy_trainer(world, CONFIG, seed=0)
    trainer.iterate()
    with pytest.raises(RuntimeError, match="the simulator is gone"):
        trainer.iterate()


# ---- learning --------------------------------------------------------------------------------------------------------

PROBING = PPOConfig(
    num_steps=8,
    gamma=GAMMA,
    lam=1.0,
    advantage="vtrace",
    decoupled=True,
    model=ActorCriticConfig(
        actor_hidden=(16,), critic_hidden=(16,), normalize_observations=False, init_std=0.5, min_std=0.1
    ),
    optimizer=OptimizerConfig(
        epochs=1, minibatches=4, learning_rate=2e-2, schedule="constant", clip_value_loss=False, entropy_coefficient=0.0
    ),
)


@every_probe
def test_probes(probe):
    solve(probe, PROBING, 40)
