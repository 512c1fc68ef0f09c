"""Gymnasium's environments, by short names or as ``gym:<id>``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gaitway_files.foreign import calling
from gaitway_files.trust import import_trusted, trust
from gaitway_tasks.registry import UnknownNameError

from ..errors import ConfigError, RunError
from .environments import Environments
from .request import Request

if TYPE_CHECKING:
    from gaitway_gymnasium import GymTask
    from gymnasium.vector import VectorEnv

    from ..train_config import TrainConfig
    from .domain import Frame


class Gyms(Environments):
    """Tasks of :mod:`gaitway_gymnasium`."""

    def names(self) -> Iterable[str]:
        from gaitway_gymnasium import task_names

        return [*task_names(), "gym:<id>"]

    def find(self, name: str, preset: str | None = None) -> GymTask | None:
        from gaitway_gymnasium import task_named

        if not name.startswith("gym:"):
            with contextlib.suppress(UnknownNameError):
                return task_named(name)
            return None
        trust(*_modules(name.removeprefix("gym:")))  # the user has named it: it may lie in the current folder
        _import(name.removeprefix("gym:"), name, name)
        try:
            return task_named(name)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def facts(self) -> Iterable[tuple[str, Sequence[str], str]]:
        from gaitway_gymnasium.tasks import IDS

        rows = [(name, (), f"{env_id} of Gymnasium") for name, env_id in IDS.items()]
        return [*rows, ("gym:ID", (), "any other id of Gymnasium or EnvPool")]

    def defaults(self, task: GymTask, request: Request) -> dict[str, Any]:
        from .gym_presets import gym_settings

        return gym_settings(task, request.agent, self.agents()[request.agent].defaults())

    def load_code(self, task: GymTask) -> None:
        _import(task.env_id, "task.env_id", f"task.env_id={task.env_id!r}")

    def make_env(self, config: TrainConfig, num_envs: int, seed: int) -> VectorEnv:
        import gaitway_gymnasium
        from gaitway_agents.vector.adapt import adapt

        env = gaitway_gymnasium.make_env(config.task, num_envs, seed=seed, num_threads=config.num_threads)
        return adapt(env, config.task.call_time_limit)

    def time_limit(self, task: GymTask) -> int | None:
        from gaitway_gymnasium.make import time_limit

        return time_limit(task)

    def pictured(self, task: GymTask, seed: int) -> tuple[Any, Callable[[Any], Frame], float]:
        import gaitway_gymnasium
        import gymnasium
        import numpy as np
        from gaitway_agents.vector.adapt import adapt

        if task.env_id.rpartition(":")[2] not in gymnasium.registry:
            raise RunError(f"{task.env_id} is EnvPool's, which draws no pictures: there is nothing to film")
        if not os.environ.get("DISPLAY"):
            os.environ.setdefault("MUJOCO_GL", "egl")  # Gymnasium's own choice needs a display
        with calling(task.env_id, "constructor", task.call_time_limit):
            probe = gymnasium.make(task.env_id, render_mode="rgb_array", disable_env_checker=True, **task.kwargs)
        fps = int(probe.metadata.get("render_fps", 30))
        drawing: dict[str, Any] = {"render_mode": "rgb_array"}
        model: Any = getattr(probe.unwrapped, "model", None)
        if "track" in [model.camera(i).name for i in range(getattr(model, "ncam", 0))]:
            drawing["camera_name"] = "track"  # a robot would run out of the default camera's view
        probe.close()
        filmed = replace(task, backend="gymnasium", vectorization="sync", kwargs={**task.kwargs, **drawing})
        inner = gaitway_gymnasium.make_env(filmed, 1, seed=seed)

        def picture(observation: Any) -> Frame:
            with calling(task.env_id, "render", task.call_time_limit):
                (drawn,) = inner.render() or (None,)
            if drawn is None:
                raise RunError(
                    f"{task.env_id} draws no pictures with render_mode='rgb_array': there is nothing to film"
                )
            return np.asarray(drawn, np.uint8)

        return adapt(inner, task.call_time_limit), picture, fps


def _modules(env_id: str) -> list[str]:
    """The module of ``module:Id``, which registers the environment."""
    return [module] if (module := env_id.rpartition(":")[0]) else []


def _import(env_id: str, where: str, shown: str) -> None:
    for module in _modules(env_id):
        try:
            import_trusted(module, where)
        except ImportError as error:
            raise ConfigError(f"{shown}: cannot import {module!r}: {error}") from None
