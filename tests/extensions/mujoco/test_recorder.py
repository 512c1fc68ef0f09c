"""A row is one moment: its state gives its observation, and stepping from it gives the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from gaitway_mujoco import make_env
from gaitway_mujoco.recorder import RolloutRecorder
from gaitway_tasks.registry import get_task
from gymnasium.vector import VectorWrapper

STEPS, ENVS = 30, 2


@pytest.fixture(scope="module")
def recorded():
    task = get_task("velocity-flat-anymal-c")
    task = replace(task, timing=replace(task.timing, episode_length_s=0.4))
    group = replace(task.observations["policy"], enable_corruption=False)
    recorder = RolloutRecorder(make_env(replace(task, observations={"policy": group}), ENVS, seed=0, num_threads=1))
    observation, _ = recorder.reset(seed=0)
    seen, actions = [], 0.3 * torch.randn(STEPS, ENVS, 12, generator=torch.Generator().manual_seed(0))
    for action in actions:
        seen.append(observation["policy"].clone())
        observation, *_ = recorder.step(action)
    return task, recorder.recording(), torch.stack(seen).numpy(), actions.numpy()


def test_a_row_is_one_moment(recorded) -> None:
    task, found, seen, actions = recorded
    default = np.array(task.robot.default_joint_pos, np.float32)
    assert (found.steps, found.num_envs) == (STEPS, ENVS) and found.starts_at_reset and not found.observation_noise
    np.testing.assert_array_equal(found.observation, seen)
    np.testing.assert_array_equal(found.action, actions)
    np.testing.assert_allclose(found.observation[..., 0:3], found.root_lin_vel, atol=1e-6)
    np.testing.assert_allclose(found.observation[..., 9:12], found.command, atol=1e-6)
    np.testing.assert_allclose(found.observation[..., 12:24], found.joint_pos - default, atol=1e-6)
    np.testing.assert_allclose(found.joint_pos_target, default + 0.5 * actions, atol=1e-6)


def test_episodes_end_where_they_end(recorded) -> None:
    _, found, *_ = recorded
    assert found.done[19].all()  # 0.4 s of 20 ms
    first = np.roll(found.done, 1, 0)[1:]
    np.testing.assert_array_equal(found.observation[1:][first][:, 36:48], 0.0)  # no last action yet
    np.testing.assert_array_equal(found.observation[1:][~first][:, 36:48], found.action[:-1][~first])


def test_a_reset_starts_anew() -> None:
    recorder = RolloutRecorder(make_env(get_task("velocity-flat-anymal-c"), 1, num_threads=1))
    recorder.reset(seed=0)
    recorder.step(torch.zeros(1, 12))
    recorder.reset(seed=0)
    assert len(recorder.buffer) == 0


def test_other_worlds_are_refused() -> None:
    import gymnasium as gym

    with pytest.raises(ValueError, match="no MujocoVectorEnv"):
        RolloutRecorder(VectorWrapper(gym.make_vec("CartPole-v1", num_envs=1)))
