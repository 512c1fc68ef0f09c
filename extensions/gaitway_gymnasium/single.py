"""A single environment of somebody else's, whose results are checked before many are put side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gaitway_files.foreign import BrokenEnvironmentError, raised
from gymnasium import spaces

MASK = "action_mask"
RESULTS = ("observation", "reward", "terminated", "truncated", "info")
Info = dict[str, Any]


class Single(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment in the shape that vector environments take without complaint.

    - The reward is one number, ``terminated`` and ``truncated`` are flags, and observations have their space's shape.
    - ``info`` holds what agents read: ``episode`` where one ends, if it is an account of Gymnasium's, and
      ``action_mask``, which may also come from a method ``action_masks`` (sb3-contrib's convention). Everything else
      is the environment's own, of any type.
    - What it raises is an :class:`gaitway_files.foreign.EnvironmentRaised`, also from another process.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]):
        super().__init__(env)
        space = env.observation_space
        named = space.spaces.items() if isinstance(space, spaces.Dict) else [(None, space)]
        self._shapes = {name: part.shape for name, part in named if isinstance(part, spaces.Box)}
        self._masks: Callable[[], Any] | None = None
        if not isinstance(env.action_space, spaces.Box) and env.has_wrapper_attr("action_masks"):
            self._masks = env.get_wrapper_attr("action_masks")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        try:
            result = self.env.reset(seed=seed, options=options)
            if not isinstance(result, tuple) or len(result) != 2:
                raise BrokenEnvironmentError(
                    "reset() gives no observation and info: environments of the old gym are made with "
                    "shimmy's GymV21Environment-v0"
                )
            observation, info = result
            self._check(observation)
            return observation, self._read(info)
        except (Exception, SystemExit) as error:
            raise raised(error) from error

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        try:
            result = self.env.step(action)
            if not isinstance(result, tuple | list) or len(result) != len(RESULTS):
                number = f"{len(result)} results" if isinstance(result, tuple | list) else type(result).__name__
                raise BrokenEnvironmentError(f"step() gives {number}, not {', '.join(RESULTS)}")
            observation, reward, terminated, truncated, info = result
            self._check(observation)
            ends = _flag("terminated", terminated), _flag("truncated", truncated)
            told = self._read(info)
            if any(ends) and (account := _account(info)) is not None:
                told["episode"] = account
            return observation, _number(reward), *ends, told
        except (Exception, SystemExit) as error:
            raise raised(error) from error

    def _check(self, observation: Any) -> None:
        for name, promised in self._shapes.items():
            if name is not None and (not isinstance(observation, dict) or name not in observation):
                raise BrokenEnvironmentError(f"observation has no {name!r}, its space promises one")
            value = observation if name is None else observation[name]
            if (shape := np.shape(value)) != promised:
                which = "" if name is None else f" {name!r}"
                raise BrokenEnvironmentError(f"observation{which} has shape {shape}, its space promises {promised}")

    def _read(self, info: Info | None) -> Info:
        """The mask, if there is one."""
        if info and MASK in info:
            return {MASK: info[MASK]}
        return {} if self._masks is None else {MASK: self._masks()}


def _account(info: Info | None) -> Info | None:
    """Return and length of an episode, as Gymnasium's RecordEpisodeStatistics writes them."""
    found = (info or {}).get("episode")
    if not isinstance(found, dict) or not {"r", "l"} <= found.keys():
        return None
    told = {name: np.asarray(found[name]) for name in ("r", "l")}
    if any(value.size != 1 or value.dtype.kind not in "fiu" for value in told.values()):
        return None
    return {"r": float(told["r"].item()), "l": int(told["l"].item())}


def _number(reward: Any) -> float:
    """A reward, also in an array of one element."""
    if type(reward) is float:
        return reward
    array = np.asarray(reward)
    if array.size != 1 or array.dtype.kind not in "fiub":
        raise BrokenEnvironmentError(f"reward is {reward!r}, it must be one number")
    return float(array.item())


def _flag(name: str, value: Any) -> bool:
    """An end, also as a number or in an array of one element; None, which some give, is no end."""
    if value is True or value is False:
        return bool(value)
    array = np.asarray(False if value is None else value)
    if array.size != 1 or array.dtype.kind not in "biuf" or array.item() not in (0, 1):
        raise BrokenEnvironmentError(f"{name} is {value!r}, it must be True or False")
    return bool(array.item())
