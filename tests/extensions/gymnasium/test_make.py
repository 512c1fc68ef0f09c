"""Names, ids, backends, seeds, and the pool with its spares."""

from __future__ import annotations

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gaitway_gymnasium import GymTask, make_env, task_named, task_names
from gaitway_gymnasium.envpool_env import EnvPoolVectorEnv
from gaitway_gymnasium.make import uses_envpool
from gymnasium.vector import AutoresetMode

# ---- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", task_names())
def test_every_name_is_a_current_environment(name):
    task = task_named(name)
    assert task.name == name
    spec = gymnasium.spec(task.env_id)
    versions = [
        other.version for other in gymnasium.registry.values() if (other.namespace, other.name) == (None, spec.name)
    ]
    assert spec.version == max(versions)


def test_other_ways_to_name_a_task():
    assert task_named("halfcheetah") == task_named("half-cheetah")
    assert task_named("gym:LunarLander-v3") == GymTask(name="gym:LunarLander-v3", env_id="LunarLander-v3")
    assert task_named("gym:CarRacing-v3").env_id == "CarRacing-v3"
    assert task_named("gym:MiniGrid-Empty-5x5-v0").env_id == "MiniGrid-Empty-5x5-v0"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cartpol", r"unknown task 'cartpol': did you mean 'cartpole'"),
        ("gym:CartPol-v1", r"'CartPol-v1': did you mean 'CartPole-v1'"),
        ("gym:LunarLander-v99", r"'LunarLander-v99': did you mean 'LunarLander-v[23]'"),
        ("gym:no_such_module_:X-v0", r"its module 'no_such_module_' is not installed"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(name, message):
    with pytest.raises(ValueError, match=message):
        task_named(name)


def test_bad_values_are_refused():
    with pytest.raises(ValueError, match=r"backend 'isaac'.*envpool"):
        GymTask(name="x", env_id="CartPole-v1", backend="isaac")
    with pytest.raises(ValueError, match="max_episode_steps 0"):
        GymTask(name="x", env_id="CartPole-v1", max_episode_steps=0)
    with pytest.raises(ValueError, match="num_envs 0"):
        make_env(task_named("cartpole"), 0)
    with pytest.raises(ValueError, match=r"Taxi-v4 with backend \"envpool\""):
        make_env(replace(task_named("taxi"), backend="envpool"), 1)


# ---- backends --------------------------------------------------------------------------------------------------------


def test_auto_takes_envpool_only_for_the_very_same_task():
    assert uses_envpool(task_named("hopper")) and not uses_envpool(task_named("taxi"))
    assert not uses_envpool(replace(task_named("hopper"), kwargs={"forward_reward_weight": 2.0}))
    assert not uses_envpool(replace(task_named("hopper"), backend="gymnasium"))
    assert uses_envpool(GymTask(name="x", env_id="MiniGrid-Empty-5x5-v0"))


def test_arguments_reach_the_environment():
    flat = GymTask(name="x", env_id="FrozenLake-v1", kwargs={"is_slippery": False, "map_name": "8x8"})
    env = make_env(flat, 2)
    assert env.single_observation_space.n == 64
    env.reset()
    assert env.step(np.array([2, 2]))[0].tolist() == [1, 1]
    pool = make_env(GymTask(name="x", env_id="Hopper-v5", backend="envpool", kwargs={"healthy_reward": 7.0}), 2)
    pool.reset()
    assert pool.step(np.zeros((2, 3)))[1] == pytest.approx([7.0, 7.0], abs=1.0)


@pytest.mark.parametrize("backend", ["envpool", "gymnasium"])
def test_time_limits(backend):
    env = make_env(replace(task_named("pendulum"), backend=backend, max_episode_steps=4), 3)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    env.reset()
    ends = [env.step(np.zeros((3, 1), np.float32))[3].all() for _ in range(8)]
    assert ends == [False, False, False, True] * 2


def test_processes_give_what_one_process_gives():
    task = replace(task_named("cartpole"), backend="gymnasium")
    envs = [make_env(replace(task, vectorization=kind), 2, seed=4) for kind in ("sync", "async")]
    one, other = ([env.reset()[0], *(env.step(np.array([0, 1]))[0] for _ in range(12))] for env in envs)
    np.testing.assert_array_equal(one, other)
    for env in envs:
        env.close()


@pytest.mark.parametrize("backend", ["envpool", "gymnasium"])
def test_the_seed_of_the_factory_is_that_of_the_first_reset(backend):
    task = replace(task_named("cartpole"), backend=backend)
    first = make_env(task, 3, seed=5).reset()[0]
    np.testing.assert_array_equal(first, make_env(task, 3, seed=9).reset(seed=5)[0])
    assert not np.array_equal(first, make_env(task, 3, seed=9).reset()[0])
    env = make_env(task, 3, seed=5)
    assert not np.array_equal(env.reset()[0], env.reset()[0])


# ---- the pool --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Hopper-v5"])
def test_the_pool_steps_as_envpool_does(env_id):
    """Until a first episode ends both go through the same, number for number; what replaces it is the first spare."""
    ours = EnvPoolVectorEnv(env_id, 4, seed=2, num_threads=2)
    import envpool  # 100 MB, which only those who run this need

    theirs = envpool.make(env_id, env_type="gymnasium", num_envs=4 + ours.num_spares, seed=2, num_threads=1)
    first, _ = ours.reset()
    expected = theirs.reset()[0]
    np.testing.assert_array_equal(first, expected[:4])
    ours.action_space.seed(0)
    for _ in range(100):
        actions = ours.action_space.sample()
        padded = np.concatenate((actions, actions[:1].repeat(ours.num_spares, 0)))
        result, one = ours.step(actions), theirs.step(padded)
        done = result[2] | result[3]
        for mine, yours in zip(result[1:4], one[1:4], strict=True):
            np.testing.assert_array_equal(mine, yours[:4])
        np.testing.assert_array_equal(result[0][~done], one[0][:4][~done])
        if done.any():
            np.testing.assert_array_equal(result[4]["final_obs"], one[0][:4])
            np.testing.assert_array_equal(result[0][done], expected[4 : 4 + done.sum()])
            break
    else:
        raise AssertionError("no episode ended")


@pytest.mark.parametrize("num_envs", [1, 3, 20])
def test_every_environment_is_replaced_by_a_fresh_one(num_envs):
    """First observations of CartPole are small, and none is ever given twice; ages are those of the new episodes."""
    env = EnvPoolVectorEnv("CartPole-v1", num_envs, seed=0, max_episode_steps=30)
    observation, _ = env.reset()
    firsts, ages, most = list(observation), np.zeros(num_envs, int), 0
    for _ in range(200):
        observation, _, terminated, truncated, info = env.step(np.ones(num_envs, np.int64))
        done = terminated | truncated
        ages += 1
        assert (ages[done] >= 8).all() and (ages <= 11).all(), "pushed to one side a pole falls in 8 to 11 steps"
        assert ("final_obs" in info) == done.any()
        if done.any():
            assert (np.abs(observation[done]) <= 0.05).all() and (np.abs(info["final_obs"][done]) > 0.05).any(1).all()
            firsts += list(observation[done])
        ages[done] = 0
        most = max(most, int(done.sum()))
    assert len(np.unique(np.stack(firsts), axis=0)) == len(firsts) > 15 * num_envs
    assert sorted(np.concatenate((env._active, env._spare, env._ended))) == list(range(num_envs + env.num_spares))
    if num_envs == 20:
        assert most > env.num_spares, "also more ends at once than there are spares"


def test_the_pool_refuses_what_it_cannot_do():
    with pytest.raises(gymnasium.error.ResetNeeded):
        EnvPoolVectorEnv("CartPole-v1", 1).step(np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="more than one array"):
        EnvPoolVectorEnv("FetchReach-v4", 1)
