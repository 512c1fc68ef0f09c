"""Gaitway's environments for Stable-Baselines3, whose VecEnv is numpy and has an autoreset of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gaitway_files.errors import UserError
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common import vec_env

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

Array = NDArray[Any]


class VecEnv(vec_env.VecEnv):
    """An environment of :func:`gaitway.make_vec` as Stable-Baselines3 knows them.

    Observations are the group "policy", rewards float32 (N,), ends bool (N,). An environment that ends restarts within
    the step, and its info has ``terminal_observation``, ``TimeLimit.truncated`` and ``episode`` (``r``, ``l``, ``t``),
    so that no ``VecMonitor`` is needed. ``action_limit`` bounds actions that have no bounds: PPO's samples are clipped
    to it, SAC squashes into it (typically 1 to 3 there; a robot's action of 1 is 0.5 rad from the default pose).
    """

    def __init__(self, env: VectorEnv, action_limit: float = 3.0):
        if not action_limit > 0.0:
            raise UserError(f"action_limit={action_limit}: must be above 0")
        self.env, self._begun = env, time.monotonic()
        self._actions: Array | None = None
        groups: Any = env.single_observation_space
        super().__init__(env.num_envs, groups["policy"], bounded(env.single_action_space, action_limit))

    def reset(self) -> Array:
        """Observations (N, D) of new episodes; the seed of :meth:`seed` counts once."""
        observation, _ = self.env.reset(seed=self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        return _copy(observation["policy"])

    def step_async(self, actions: Array) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        """Observations (N, D), rewards (N,), ends (N,) and infos of the actions (N, A)."""
        observation, reward, terminated, truncated, info = self.env.step(torch.as_tensor(self._actions))
        if not info.get("valid", np.True_).all():
            raise UserError("this environment has steps that are no transitions, which Stable-Baselines3 cannot tell")
        ended = _copy(terminated | truncated).astype(bool)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for row in np.flatnonzero(ended):
            infos[row] = {
                "terminal_observation": _copy(info["final_obs"]["policy"][row]),
                "TimeLimit.truncated": bool(truncated[row] & ~terminated[row]),
            }
            if "episode" in info and info["_episode"][row]:
                length, total = int(info["episode"]["l"][row]), float(info["episode"]["r"][row])
                infos[row]["episode"] = {"r": total, "l": length, "t": round(time.monotonic() - self._begun, 6)}
        return _copy(observation["policy"]), _copy(reward).astype(np.float32), ended, infos

    def close(self) -> None:
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.env, attr_name)] * len(self._rows(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of all environments together: they are one object."""
        setattr(self.env, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call a method of all environments together, once."""
        return [getattr(self.env, method_name)(*args, **kwargs)] * len(self._rows(indices))

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False] * len(self._rows(indices))

    def _rows(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))


def bounded(space: Any, limit: float) -> Any:
    """The action space with finite bounds: -``limit`` and ``limit`` in the place of infinite ones."""
    if not isinstance(space, spaces.Box):
        return space
    low, high = (
        np.where(np.isfinite(space.low), space.low, -limit),
        np.where(np.isfinite(space.high), space.high, limit),
    )
    return spaces.Box(low.astype(space.dtype), high.astype(space.dtype), dtype=space.dtype)


def _copy(values: Any) -> Array:
    """An array of its own: environments write into what they gave."""
    return torch.as_tensor(values).cpu().numpy().copy()
