"""Scaling of rewards against Stable-Baselines3's VecNormalize and Gymnasium's NormalizeReward.

Both feed their statistics after every step, Gaitway after every rollout; at the end of a rollout all have seen the
same. Their counts start at 1e-4 and not at 0.
"""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gaitway_agents.models.normalizer import RewardScaler
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import NormalizeReward

STEPS, ENVS, GAMMA = 40, 6, 0.97
RNG = np.random.default_rng(0)
REWARDS, DONE = RNG.normal(2.0, 5.0, (STEPS, ENVS)).astype(np.float32), RNG.random((STEPS, ENVS)) < 0.1


class Scripted(gymnasium.Env):
    """Environment ``n`` of the script; all its episodes are cut by the clock."""

    observation_space = action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, n: int):
        self.n, self.t = n, 0

    def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self.reset()[0], float(REWARDS[self.t - 1, self.n]), False, bool(DONE[self.t - 1, self.n]), {}


def ours(steps: int) -> tuple[RewardScaler, np.ndarray]:
    """The scaler after rollouts of ``steps`` steps, and the rewards that it gave."""
    scaler, scaled = RewardScaler(ENVS, GAMMA), []
    for t in range(0, STEPS, steps):
        rewards, done = (torch.from_numpy(part[t : t + steps]) for part in (REWARDS, DONE))
        scaled.append(scaler(rewards, done, torch.ones_like(done)).numpy())
    return scaler, np.concatenate(scaled)


@pytest.mark.parametrize("steps", [1, 8, STEPS])
def test_stable_baselines3(steps):
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    theirs = vec_env.VecNormalize(
        vec_env.DummyVecEnv([functools.partial(Scripted, n) for n in range(ENVS)]), norm_obs=False, gamma=GAMMA
    )
    theirs.reset()
    expected = []
    for t in range(1, STEPS + 1):
        theirs.step(np.zeros((ENVS, 1)))
        if t % steps == 0:
            expected.append(theirs.normalize_reward(REWARDS[t - steps : t]))
    scaler, scaled = ours(steps)
    np.testing.assert_allclose(scaler.statistics.var.item(), theirs.ret_rms.var, rtol=1e-5)
    np.testing.assert_allclose(scaler.statistics.mean.item(), theirs.ret_rms.mean, rtol=1e-5)
    np.testing.assert_allclose(scaler.returns.numpy(), theirs.returns, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(scaled, np.concatenate(expected), rtol=1e-4, atol=1e-5)


def test_gymnasium():
    """Gymnasium forgets its return one step earlier where an episode terminates; these episodes do not."""
    worlds = [functools.partial(Scripted, n) for n in range(ENVS)]
    theirs = NormalizeReward(SyncVectorEnv(worlds, autoreset_mode=AutoresetMode.SAME_STEP), gamma=GAMMA)
    theirs.reset()
    last = [theirs.step(np.zeros((ENVS, 1), np.float32))[1] for _ in range(STEPS)][-1]
    scaler, scaled = ours(8)
    np.testing.assert_allclose(scaler.statistics.var.item(), theirs.return_rms.var, rtol=1e-5)
    np.testing.assert_allclose(scaler.statistics.mean.item(), theirs.return_rms.mean, rtol=1e-5)
    np.testing.assert_allclose(scaled[-1], last, rtol=1e-4)
