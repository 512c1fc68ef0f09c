"""Wrapper around games: lives as episodes, clipped rewards, scores of whole games."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from ale_py.vector_env import AtariVectorEnv
from gaitway_files.errors import UserError
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from .ram import FIRE, RamVectorEnv
from .tasks import AtariTask, rom_of

SIZE = 84
"""Height and width of images [pixels]."""


class AtariGames(VectorEnv):
    """``num_envs`` games of one task, NumPy, SAME_STEP.

    With ``episodic_life`` a lost life is a termination after which the game goes on. If lives start with FIRE, the
    next step presses it for every action; such rows are no transitions and False in ``info["valid"]``.
    ``info["episode"]`` holds score ``r`` and length ``l`` [steps] of whole games, with the rewards before clipping,
    valid where ``info["_episode"]`` is true; every step has both keys.
    """

    def __init__(self, task: AtariTask, num_envs: int, *, seed: int = 0, num_threads: int = 0):
        if num_envs < 1:
            raise UserError(f"num_envs {num_envs}: at least one environment is needed")
        self.task, self.num_envs = task.resolved(), num_envs
        self.env: RamVectorEnv | AtariVectorEnv
        if task.observation == "ram":
            self.env = RamVectorEnv(self.task, num_envs)
            actions = self.env.action_set
        else:
            self.env = _image_env(self.task, num_envs, num_threads)
            actions = self.env.ale.get_action_set()
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": [], "gaitway_info": True}
        self.single_observation_space = self.env.single_observation_space
        self.single_action_space = self.env.single_action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        buttons = [action.value for action in actions]
        self._serves = bool(self.task.fire_reset) and FIRE in buttons
        self._fire = buttons.index(FIRE) if self._serves else 0
        self._np_random_seed, self._pristine = seed, True
        self._lives: np.ndarray | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Restart every game; without ``seed`` the first reset uses the constructor's."""
        if seed is None and self._pristine:
            seed = self._np_random_seed
        if seed is not None:
            self._np_random_seed = seed
        self._pristine = False
        # The consoles' seeds are 32 bits, counted upwards from this one.
        observation, info = self.env.reset(seed=None if seed is None else seed % (2**31 - self.num_envs))
        self._lives = info["lives"].copy()
        self._serve = np.zeros(self.num_envs, np.bool_)
        self._score, self._length = np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64)
        return observation, {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self._lives is None:
            raise gymnasium.error.ResetNeeded("step() before reset(): call env.reset() first")
        served = self._serve
        if served.any():
            actions = np.where(served, self._fire, actions)
        observation, reward, terminated, truncated, given = self.env.step(actions)
        over = terminated | truncated
        lives = given["lives"]
        lost = (lives < self._lives) & (lives > 0) & ~over if self.task.episodic_life else np.zeros_like(over)
        self._lives = lives.copy()
        self._score, self._length = self._score + reward, self._length + 1
        info: dict[str, Any] = {"episode": {"r": self._score, "l": self._length}, "_episode": over}
        self._score, self._length = self._score * ~over, self._length * ~over
        done = over | lost
        if done.any():
            final = observation
            if over.any():
                final = observation.copy()
                final[over] = given["final_obs"][over]
            info["final_obs"], info["_final_obs"] = final, done
        if served.any():
            info["valid"] = ~served
        self._serve = lost if self._serves else np.zeros_like(lost)
        clipped = np.sign(reward) if self.task.reward_clip else reward
        return observation, clipped.astype(np.float32), terminated | lost, truncated, info

    def close(self, **kwargs: Any) -> None:
        self.env.close()


def _image_env(task: AtariTask, num_envs: int, num_threads: int) -> AtariVectorEnv:
    """ale-py's own preprocessing in C++, with rewards and lives left as they are."""
    rom_of(task.game)
    return AtariVectorEnv(
        task.game,
        num_envs,
        num_threads=num_threads,
        max_num_frames_per_episode=task.max_frames,
        repeat_action_probability=float(task.sticky or 0.0),
        full_action_space=bool(task.full_actions),
        autoreset_mode=AutoresetMode.SAME_STEP,
        img_height=SIZE,
        img_width=SIZE,
        stack_num=task.stack,
        frameskip=task.frame_skip,
        noop_max=int(task.noop_max or 0),
        use_fire_reset=bool(task.fire_reset),
        reward_clipping=False,
    )
