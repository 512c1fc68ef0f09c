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
FRAMES = 60
"""Frames that a console draws in a second."""
SCREEN = {"img_height": 210, "img_width": 160, "stack_num": 1, "grayscale": False}
"""What a player sees, in colours."""


class AtariGames(VectorEnv):
    """``num_envs`` games of one task, NumPy, SAME_STEP.

    With ``episodic_life`` a lost life is a termination after which the game goes on. If lives start with FIRE, the
    next step presses it for every action; such rows are no transitions and False in ``info["valid"]``.
    ``info["episode"]`` holds score ``r`` and length ``l`` [steps] of whole games, with the rewards before clipping,
    valid where ``info["_episode"]`` is true; every step has both keys. With ``render_mode="rgb_array"`` a second game
    of the same seed is played along with each one, whose screens ``render`` returns.
    """

    def __init__(
        self, task: AtariTask, num_envs: int, *, seed: int = 0, num_threads: int = 0, render_mode: str | None = None
    ):
        if num_envs < 1:
            raise UserError(f"num_envs {num_envs}: at least one environment is needed")
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"render_mode {render_mode!r}: games can be drawn as 'rgb_array'")
        self.task, self.num_envs, self.render_mode = task.resolved(), num_envs, render_mode
        self.env: RamVectorEnv | AtariVectorEnv
        self.twin: AtariVectorEnv | None = None
        if task.observation == "ram":
            self.env = RamVectorEnv(self.task, num_envs)
            actions = self.env.action_set
        else:
            self.env = _image_env(self.task, num_envs, num_threads)
            actions = self.env.ale.get_action_set()
            if render_mode is not None:
                self.twin = _image_env(self.task, num_envs, num_threads, **SCREEN)
        self.metadata = {
            "autoreset_mode": AutoresetMode.SAME_STEP,
            "render_modes": ["rgb_array"],
            "render_fps": FRAMES / self.task.frame_skip,
            "gaitway_info": True,
        }
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
        seed = None if seed is None else seed % (2**31 - self.num_envs)
        observation, info = self.env.reset(seed=seed)
        if self.twin:
            self._screens, _ = self.twin.reset(seed=seed)
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
        if self.twin:
            self._screens = self.twin.step(actions)[0]
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

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Screens of the games, each (210, 160, 3) uint8; None without a render mode."""
        if self.render_mode is None:
            return None
        if isinstance(self.env, RamVectorEnv):
            return tuple(console.getScreenRGB() for console in self.env.consoles)
        return tuple(self._screens[:, -1])

    def close(self, **kwargs: Any) -> None:
        for env in filter(None, (self.env, self.twin)):
            env.close()


def _image_env(task: AtariTask, num_envs: int, num_threads: int, **seen: Any) -> AtariVectorEnv:
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
        frameskip=task.frame_skip,
        noop_max=int(task.noop_max or 0),
        use_fire_reset=bool(task.fire_reset),
        reward_clipping=False,
        **{"img_height": SIZE, "img_width": SIZE, "stack_num": task.stack} | seen,
    )
