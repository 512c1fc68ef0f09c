"""Environments of a task for learners in Python, and settings given from Python."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from gaitway_files.errors import UserError

from .catalogue import WORLDS, require

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from .sb3 import VecEnv


@overload
def make_vec(
    task: str | Any,
    num_envs: int = 64,
    preset: str | None = None,
    seed: int = 0,
    *,
    library: Literal["gymnasium"] = "gymnasium",
    action_limit: float = 3.0,
    **settings: Any,
) -> VectorEnv: ...


@overload
def make_vec(
    task: str | Any,
    num_envs: int = 64,
    preset: str | None = None,
    seed: int = 0,
    *,
    library: Literal["sb3"],
    action_limit: float = 3.0,
    **settings: Any,
) -> VecEnv: ...


def make_vec(
    task: str | Any,
    num_envs: int = 64,
    preset: str | None = None,
    seed: int = 0,
    *,
    library: Literal["gymnasium", "sb3"] = "gymnasium",
    action_limit: float = 3.0,
    **settings: Any,
) -> Any:
    """``num_envs`` environments of a task, a name or an object as in :func:`train`, stepped together.

    ``library`` "gymnasium" gives a ``gymnasium.vector.VectorEnv`` of torch tensors as Gaitway's agents see it: float32
    observations by group, each (N, D), and finished episodes that restart within the step. "sb3" gives a VecEnv of
    numpy arrays for Stable-Baselines3, with the observations of the group "policy" and actions in [-``action_limit``,
    ``action_limit``] where the task has no bounds (:class:`gaitway.sb3.VecEnv`). ``settings`` change
    the configuration as in :func:`train`, for example ``num_threads=2``.

    Raises :class:`gaitway.UserError` for an unknown task, preset or setting, and language tasks.

    >>> env = gaitway.make_vec("velocity-flat-anymal-c", 256, preset="cpu", library="sb3")
    >>> stable_baselines3.PPO("MlpPolicy", env).learn(1_000_000)
    """
    if library not in ("gymnasium", "sb3"):
        raise UserError(f"library={library!r}: use gymnasium or sb3")
    if num_envs < 1:
        raise UserError(f"num_envs {num_envs}: at least one environment is needed")
    require("making environments", WORLDS["gymnasium"])  # all tasks need as much
    if library == "sb3" and find_spec("stable_baselines3") is None:
        raise UserError("library='sb3' needs stable_baselines3, not installed here: pip install stable-baselines3")
    from .domains.table import find_task, worlds_of
    from .start import trust_named
    from .train_config import resolve

    trust_named(task)
    found = find_task(task, preset)
    require(f"making {found.name}", WORLDS[worlds_of(found)[0]])
    config = resolve(task, preset=preset, overrides=typed(settings), seed=seed)
    env = config.environments.make_env(config, num_envs, seed)
    if library == "gymnasium":
        return env
    from . import sb3

    return sb3.VecEnv(env, action_limit)


def typed(settings: Mapping[str, Any]) -> list[str]:
    """Settings as ``key=value``, as they would be typed."""
    words = []
    for key, value in settings.items():
        try:
            words.append(f"{key}={json.dumps(value, default=_plain)}")
        except TypeError:
            raise UserError(f"{key}={value!r}: give a number, text, true or false, a list or a mapping") from None
    return words


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError
