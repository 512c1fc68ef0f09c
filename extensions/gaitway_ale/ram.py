"""Atari games observed through the console's memory, which ale-py's vector environment does not offer."""

from __future__ import annotations

from typing import Any

import numpy as np
from ale_py import ALEInterface, LoggerMode
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from .tasks import AtariTask, rom_of

NOOP, FIRE = 0, 1
"""Ids of the two actions among all 18."""


class RamVectorEnv(VectorEnv):
    """``num_envs`` consoles; observations are float32 (N, stack * 128) in [0, 1], the newest frame last.

    ``info`` has the keys of ``ale_py.AtariVectorEnv``: ``lives``, and where games end ``final_obs`` (N, ...), valid
    in those rows. Rewards are not clipped, and only the end of a game is a termination. ``task`` must be resolved.
    """

    def __init__(self, task: AtariTask, num_envs: int):
        self.task, self.num_envs = task, num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.consoles = [ALEInterface() for _ in range(num_envs)]
        self.rngs = [np.random.default_rng() for _ in range(num_envs)]
        self.rom = rom_of(task.game)
        for console in self.consoles:
            console.setFloat("repeat_action_probability", float(task.sticky or 0.0))
        console, self.loaded = self.consoles[0], False
        console.loadROM(self.rom)
        self.action_set = console.getLegalActionSet() if task.full_actions else console.getMinimalActionSet()
        self.fires = bool(task.fire_reset) and any(action.value == FIRE for action in self.action_set)
        self.frames = np.zeros(num_envs, np.int64)
        self.memory = np.zeros((num_envs, task.stack, console.getRAMSize()), np.uint8)
        self.single_observation_space = spaces.Box(0.0, 1.0, (self.memory[0].size,), np.float32)
        self.single_action_space = spaces.Discrete(len(self.action_set))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        for i, console in enumerate(self.consoles):
            if seed is not None:
                self.rngs[i] = np.random.default_rng(seed + i)
                console.setInt("random_seed", (seed + i) % 2**31)
            if seed is not None or not self.loaded:
                console.loadROM(self.rom)  # takes a tenth of a second, and only then reads the seed
            self._restart(i)
        self.loaded = True
        return self._observe(), {"lives": self._lives()}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        rewards = np.zeros(self.num_envs, np.int64)
        terminated = np.zeros(self.num_envs, np.bool_)
        for i, (console, action) in enumerate(zip(self.consoles, actions.tolist(), strict=True)):
            for _ in range(self.task.frame_skip):
                rewards[i] += console.act(self.action_set[action])
                self.frames[i] += 1
                if console.game_over() or self.frames[i] >= self.task.max_frames:
                    break
            terminated[i] = console.game_over()
            self._remember(i)
        truncated = (self.frames >= self.task.max_frames) & ~terminated
        observation, info = self._observe(), {}
        over = terminated | truncated
        if over.any():
            info = {"final_obs": observation, "_final_obs": over}
            for i in np.flatnonzero(over).tolist():
                self._restart(i)
            observation = self._observe()
        return observation, rewards, terminated, truncated, info | {"lives": self._lives()}

    def _restart(self, i: int) -> None:
        console = self.consoles[i]
        console.reset_game()
        if self.fires:
            console.act(FIRE)
        noops = int(self.rngs[i].integers(max(self.task.noop_max or 0, 1))) - int(self.fires)
        for _ in range(noops):
            console.act(NOOP)
            if console.game_over():
                console.reset_game()
        self.frames[i], self.memory[i] = 0, 0
        self._remember(i)

    def _remember(self, i: int) -> None:
        self.memory[i, :-1] = self.memory[i, 1:].copy()
        self.memory[i, -1] = self.consoles[i].getRAM()

    def _observe(self) -> np.ndarray:
        return self.memory.reshape(self.num_envs, -1).astype(np.float32) / 255.0

    def _lives(self) -> np.ndarray:
        return np.array([console.lives() for console in self.consoles])
