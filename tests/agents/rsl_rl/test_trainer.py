"""rsl_rl as an agent: its weights are those of rsl_rl's own loop, bit for bit, and it does what every agent does."""

from __future__ import annotations

import copy
import dataclasses

import gymnasium
import numpy as np
import pytest
import torch
from gaitway_agents.rsl_rl.config import RslRlActorConfig, RslRlAlgorithmConfig, RslRlConfig, RslRlModelConfig
from gaitway_agents.rsl_rl.trainer import RslRlTrainer
from gaitway_agents.trainer import Episode, evaluate
from gaitway_agents.vector.adapt import adapt
from gymnasium.vector import VectorEnv
from tiny_worlds import TinyWorld, always, never, signs
from torch import Tensor

pytest.importorskip("rsl_rl")
from gaitway_agents.rsl_rl.env import RslRlVecEnv
from rsl_rl_by_itself import (
    LOG_STD,
    RANDOM_AGES,
    SMALL,
    Plain,
    bits,
    make_runner,
    make_world,
    through_a_file,
    trained,
    walk,
)
from tensordict import TensorDict

# ---- what rsl_rl does by itself --------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [SMALL, LOG_STD], ids=["adaptive", "log_std"])
def test_iterations_are_those_of_rsl_rls_own_loop_bit_for_bit(config):
    runner = make_runner(Plain(make_world()), config)
    before = bits(runner.alg.save())
    runner.learn(4)
    trainer = trained(make_world(), 4, config)
    assert bits(trainer.algorithm.save()) == bits(runner.alg.save()) != before
    assert trainer.algorithm.learning_rate == runner.alg.learning_rate
    assert bits(trainer.env.state_dict()) == bits(runner.env.env.state_dict())


def test_random_ages_are_drawn_where_rsl_rl_draws_them():
    runner = make_runner(RslRlVecEnv(make_world(), ["policy", "critic"]), RANDOM_AGES)
    runner.learn(3, init_at_random_ep_len=True)
    trainer = trained(make_world(), 3, RANDOM_AGES)
    assert bits(trainer.algorithm.save()) == bits(runner.alg.save())
    assert bits(trainer.env.state_dict()) == bits(runner.env.env.state_dict())
    assert bits(trained(make_world(), 3, SMALL).algorithm.save()) != bits(runner.alg.save())


def test_the_actor_of_the_real_task_is_rsl_rls_too(mujoco_world):
    config = dataclasses.replace(RslRlConfig(), num_steps_per_env=6, init_at_random_ep_len=False)
    runner = make_runner(Plain(mujoco_world()), config)
    runner.learn(2)
    trainer = trained(mujoco_world(), 2, config)
    assert bits(trainer.algorithm.save()) == bits(runner.alg.save())


@pytest.fixture
def mujoco_world():
    gaitway_mujoco = pytest.importorskip("gaitway_mujoco")
    from gaitway_tasks.registry import get_task

    task = get_task("velocity-flat-anymal-c-blind")
    return lambda num_envs=4: gaitway_mujoco.make_env(task, num_envs, seed=3, num_threads=1)


def test_the_actions_that_are_learnt_from_are_those_that_were_taken():
    world = make_world(seed=1, num_envs=32)
    trainer = trained(world, 1, dataclasses.replace(SMALL, actor=RslRlActorConfig(hidden_dims=(8,))))
    assert trainer.steps == 8 * 32
    actions = trainer.algorithm.storage.actions
    assert torch.equal(torch.stack(world.taken), actions)
    assert actions.std() > 0.1


@pytest.mark.parametrize(("terminates", "bootstrapped"), [(never, True), (always, False)], ids=["limit", "end"])
def test_only_truncations_that_are_no_terminations_are_time_outs(terminates, bootstrapped):
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, torch.ones(len(state)), terminates(len(state))

    storage = trained(TinyWorld(signs, rule, time_limit=1), 1).algorithm.storage
    added = SMALL.algorithm.gamma * storage.values if bootstrapped else torch.zeros_like(storage.values)
    assert torch.equal(storage.rewards, 1.0 + added)
    assert bool(storage.dones.all()) and storage.values.abs().min() > 1e-4


def test_the_observation_clock_counts_steps_since_the_reset():
    env = RslRlVecEnv(TinyWorld(signs, walk, time_limit=3, num_envs=4), ["policy"])
    lengths = []
    for _ in range(5):
        env.step(torch.zeros(4, 1))
        lengths.append(env.episode_length_buf.tolist())
    assert lengths == [[n] * 4 for n in (1, 2, 0, 1, 2)]
    env.episode_length_buf = torch.zeros(4, dtype=torch.int64)
    assert len(set(env.env.age.tolist())) > 1 and env.episode_length_buf.tolist() == [0] * 4


# ---- the agent -------------------------------------------------------------------------------------------------------


def test_it_learns_the_best_action_for_each_observation():
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, -(action - 0.5 * state).square()[:, 0], always(len(state))

    config = dataclasses.replace(
        SMALL,
        actor=RslRlActorConfig(hidden_dims=(16,), init_std=0.5),
        algorithm=RslRlAlgorithmConfig(entropy_coef=0.0, learning_rate=1e-2),
    )
    trainer = trained(TinyWorld(signs, rule), 30, config)
    action, memory = trainer.predict({"policy": torch.tensor([[-1.0], [1.0]])})
    assert action.flatten().tolist() == pytest.approx([-0.5, 0.5], abs=0.02) and memory == {}


def test_its_metrics_and_episodes_are_those_of_every_agent():
    trainer = RslRlTrainer(make_world(num_envs=4), SMALL, seed=0)
    metrics = trainer.iterate()
    assert all(np.isfinite(value) and isinstance(value, float) for value in metrics.values()), metrics
    names = ["policy_loss", "value_loss", "entropy", "learning_rate", "std", "explained_variance"]
    assert {f"learn/{name}" for name in names} <= set(metrics)
    parts = sum(metrics[f"time/{name}"] for name in ("environment", "policy", "learning"))
    assert 0.5 * metrics["time/total"] < parts <= metrics["time/total"]
    assert metrics["rollout/age"] == pytest.approx(np.mean([1, 2, 3, 4, 5, 6, 1, 2]))
    assert trainer.pop_episodes() == [Episode(steps=24, ret=60.0, length=6)] * 4
    assert trainer.pop_episodes() == []
    trainer.iterate()
    assert [episode.steps for episode in trainer.pop_episodes()] == [48] * 4
    assert trainer.initial_memory(3) == {}


def test_its_random_numbers_are_its_own():
    torch.manual_seed(1)
    first = bits(trained(make_world(), 3).algorithm.save())
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert bits(trained(make_world(), 3).algorithm.save()) == first
    assert torch.equal(torch.get_rng_state(), before)
    assert bits(trained(make_world(), 3, seed=1).algorithm.save()) != first


@pytest.mark.parametrize("done", [0, 3])
def test_a_run_continued_from_its_state_is_the_uninterrupted_run_bit_for_bit(done):
    trainer = trained(make_world(), done, RANDOM_AGES)
    resumed = trained(make_world(seed=5), 1, RANDOM_AGES, seed=77)
    resumed.load_state_dict(through_a_file(trainer.state_dict()))
    for _ in range(3):
        losses = [{k: v for k, v in t.iterate().items() if not k.startswith("time/")} for t in (trainer, resumed)]
        assert losses[0] == losses[1]
    assert resumed.steps == trainer.steps == (done + 3) * 8 * 32
    assert bits(resumed.state_dict()) == bits(trainer.state_dict())


def test_the_real_task_resumes_bit_for_bit(mujoco_world):
    config = dataclasses.replace(RslRlConfig(), num_steps_per_env=6)
    trainer = trained(mujoco_world(), 1, config)
    resumed = RslRlTrainer(mujoco_world(), config, seed=8)
    resumed.load_state_dict(through_a_file(trainer.state_dict()))
    trainer.iterate(), resumed.iterate()
    assert bits(resumed.state_dict()) == bits(trainer.state_dict())


def test_a_new_start_after_loading_is_no_transition():
    """Gymnasium's environments cannot be continued in the middle of an episode: they start again."""

    def make() -> VectorEnv:
        return adapt(gymnasium.make_vec("Pendulum-v1", num_envs=4, vectorization_mode="sync"))

    trainer = trained(make(), 2)
    restored = [trained(make(), 0, seed=k) for k in (1, 2)]
    for other in restored:
        other.load_state_dict(through_a_file(trainer.state_dict()))
        other.iterate()
        assert other.steps == 3 * 8 * 4
        assert not other.algorithm.storage.dones.any() and (other.algorithm.storage.rewards != 0.0).all()
    assert bits(restored[0].algorithm.save()) == bits(restored[1].algorithm.save())


def test_the_actor_is_a_copy_of_the_policy_with_its_normaliser():
    trainer = trained(make_world(), 2)
    observation = torch.linspace(-2.0, 2.0, 7)[:, None]
    actor = trainer.actor()
    expected = trainer.runner.get_inference_policy()(TensorDict({"policy": observation}, batch_size=[7]))
    assert torch.equal(actor(observation), expected)
    assert torch.equal(trainer.predict({"policy": observation})[0], expected)
    assert not torch.allclose(trainer.algorithm.actor.mlp(observation), expected)
    trainer.iterate()
    assert torch.equal(actor(observation), expected)
    assert not torch.equal(trainer.actor()(observation), expected)


def test_a_policy_acts_in_fewer_environments_than_it_was_trained_in():
    trainer = trained(make_world(), 2)
    small = RslRlTrainer(make_world(num_envs=1), SMALL, seed=3)
    small.load_policy(through_a_file(trainer.state_dict()))
    world = make_world(num_envs=3, seed=9)
    played = [evaluate(t, copy.deepcopy(world), 6, seed=1) for t in (trainer, small)]
    assert len(played[0]) == 6 and played[0] == played[1]


def test_its_policy_leaves_simulation_like_ours(mujoco_world, tmp_path):
    pytest.importorskip("onnx")
    from gaitway_onboard.bundle.policy import OnboardPolicy
    from gaitway_sim2real.bundle.export import export_bundle

    model = {"hidden_dims": (16,), "obs_normalization": True}
    config = RslRlConfig(num_steps_per_env=4, actor=RslRlActorConfig(**model), critic=RslRlModelConfig(**model))
    trainer = trained(mujoco_world(), 2, config)
    dim = trainer.env.single_observation_space["policy"].shape[0]
    # Two rollouts of four steps hold next to no spread, and dividing by that would blow up the noise of float32.
    trainer.algorithm.actor.update_normalization({"policy": torch.randn(1000, dim)})
    trainer.save_rsl_rl_checkpoint(tmp_path / "model_1.pt")
    fresh = RslRlTrainer(mujoco_world(1), config, seed=9)
    fresh.load_rsl_rl_checkpoint(tmp_path / "model_1.pt")
    assert fresh.state_dict()["policy"]["actor.obs_normalizer.count"] == 2 * 4 * 4 + 1000
    bundle = export_bundle(trainer.env.task, fresh.actor(), tmp_path / "bundle", checkpoint_sha256="ab" * 32)
    OnboardPolicy(bundle)  # replays the recording or refuses
    observation = torch.randn(5, dim)
    assert torch.equal(fresh.actor()(observation), trainer.actor()(observation))
