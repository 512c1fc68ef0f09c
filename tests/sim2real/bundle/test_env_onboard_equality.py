"""The training environment and the on-board half see the same and decide the same, over a whole episode and a reset."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import gaitway_mujoco
import numpy as np
import pytest
import torch
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.interface import Signals
from gaitway_tasks.spec import Task
from gaitway_tasks.velocity.gaits import GAITS, by_the_clock
from once import exported_once
from torch import nn

ENVS = 2


@pytest.fixture(scope="module")
def clocked(task: Task, tmp_path_factory: pytest.TempPathFactory) -> tuple[Task, nn.Module, Path]:
    """A task with a clock, a lively policy that does not throw the robot over, and their bundle."""
    task = by_the_clock(task, GAITS[4])
    torch.manual_seed(1)
    actor = nn.Sequential(nn.Linear(3 * 47, 32), nn.ELU(), nn.Linear(32, 12))
    actor[2].weight.data *= 0.3
    return task, actor, exported_once(tmp_path_factory, task, actor, checkpoint_sha256="00" * 32)


@pytest.mark.parametrize(
    ("seconds", "has_clock"), [pytest.param(10.0, True, marks=pytest.mark.slow), (0.5, False), (0.7, True)]
)
def test_observations_and_actions_agree_over_whole_episodes(
    task: Task, actor: nn.Module, exported: Path, clocked: tuple[Task, nn.Module, Path], seconds: float, has_clock: bool
) -> None:
    """One long life, and many short ones. An untrained policy may fall, so only time ends an episode here."""
    task, actor, bundle = clocked if has_clock else (task, actor, exported)
    group = dataclasses.replace(task.observations["policy"], enable_corruption=False)
    task = task.replace(
        terminations={"time_out": task.terminations["time_out"]},
        timing=dataclasses.replace(task.timing, episode_length_s=seconds),
        observations={**task.observations, "policy": group},
    )
    width = 45 + 2 * has_clock
    order = np.random.default_rng(0).permutation(12)
    names = [task.robot.joint_names[i] for i in order]
    policies = [OnboardPolicy(bundle, names) for _ in range(ENVS)]

    env = gaitway_mujoco.make_env(task, ENVS, seed=5, num_threads=1)
    obs, _ = env.reset()
    default = np.array(task.robot.default_joint_pos)
    worst = {"observation": 0.0, "action": 0.0, "target": 0.0}
    ended, longest, length = 0, 0, np.zeros(ENVS, dtype=int)
    for _ in range(max(200, task.timing.max_episode_length + 10)):
        with torch.inference_mode():
            actions = actor(obs["policy"])
        for row, policy in enumerate(policies):
            targets = policy.step(signals_of(env, row, order), env.world.command("base_velocity")[row].numpy())
            frames = policy.state[13 : 13 + 3 * width]
            seen = term_major(frames, group.history_length, [3, 3, 3, 12, 12, 12, *has_clock * [2]])
            action = actions[row].numpy()
            worst["observation"] = max(worst["observation"], np.abs(seen - obs["policy"][row].numpy()).max())
            worst["action"] = max(worst["action"], np.abs(policy.action - action).max())
            worst["target"] = max(worst["target"], np.abs(targets - (default + 0.5 * action)[order]).max())
        obs, _, terminated, truncated, _ = env.step(actions)
        length += 1
        for row in (terminated | truncated).nonzero().flatten().tolist():
            policies[row].reset()
            ended, longest, length[row] = ended + 1, max(longest, int(length[row])), 0
    env.close()
    assert ended >= ENVS and longest == task.timing.max_episode_length
    assert max(worst.values()) < 1e-5, worst


def signals_of(env: gaitway_mujoco.env.MujocoVectorEnv, row: int, order: np.ndarray) -> Signals:
    """Signals that this robot's sensors would report, in an order of their own."""
    robot = env.world.robot
    return Signals(
        joint_pos=robot.joint_pos[row].numpy()[order],
        joint_vel=robot.joint_vel[row].numpy()[order],
        imu_quat_wxyz=robot.root_quat_wxyz[row].numpy(),
        gyro=robot.root_ang_vel_b[row].numpy(),
        stamp=0.0,
    )


def term_major(frames: np.ndarray, history: int, dims: list[int]) -> np.ndarray:
    """Frame-major history, as the state keeps it, in the order that the actor reads."""
    parts = np.split(frames.reshape(history, sum(dims)), np.cumsum(dims)[:-1], axis=1)
    return np.concatenate([part.flatten() for part in parts])
