"""Atari games, by the names of their ROMs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gaitway_tasks.registry import UnknownNameError

from ..catalogue import WORLDS, install_line
from ..errors import RunError
from .environments import Environments
from .request import Request

if TYPE_CHECKING:
    from gaitway_ale import AtariTask
    from gymnasium.vector import VectorEnv

    from ..train_config import TrainConfig
    from .domain import Frame

FPS, SCALE = 15, 5  # sixty frames a second, every fourth of which is seen


class Games(Environments):
    """Tasks of :mod:`gaitway_ale`; none where ale-py is not installed."""

    def names(self) -> Iterable[str]:
        from gaitway_ale import games

        with contextlib.suppress(ImportError):
            return [game.replace("_", "-") for game in games()]
        return []

    def find(self, name: str, preset: str | None = None) -> AtariTask | None:
        from gaitway_ale import task_named

        with contextlib.suppress(ImportError, UnknownNameError):
            return task_named(name)
        return None

    def facts(self) -> Iterable[tuple[str, Sequence[str], str]]:
        if WORLDS["ale"].missing():
            return [("Atari games", (), install_line(WORLDS["ale"].extras))]
        names = list(self.names())
        return [("Atari games", (), f"{len(names)} of them, each also as NAME-ram: {', '.join(names)}")]

    def defaults(self, task: AtariTask, request: Request) -> dict[str, Any]:
        from .gym_presets import game_settings

        return game_settings(task, request.agent, self.agents()[request.agent].defaults())

    def make_env(self, config: TrainConfig, num_envs: int, seed: int) -> VectorEnv:
        import gaitway_ale
        from gaitway_agents.vector.adapt import adapt

        return adapt(gaitway_ale.make_env(config.task, num_envs, seed=seed, num_threads=config.num_threads))

    def time_limit(self, task: AtariTask) -> int:
        return -(-task.max_frames // task.frame_skip)

    def pictured(self, task: AtariTask, seed: int) -> tuple[Any, Callable[[Any], Frame], float]:
        import gaitway_ale
        from gaitway_agents.vector.adapt import adapt

        return adapt(gaitway_ale.make_env(task, 1, seed=seed)), _console, FPS


def _console(observation: Any) -> Frame:
    """Last image that the agent observed, in grey."""
    import numpy as np

    seen = observation["policy"][0]
    if seen.dim() != 3:
        raise RunError("a game seen through its memory shows no pictures: train it with images to film it")
    grey = seen[-1].numpy().repeat(SCALE, 0).repeat(SCALE, 1)
    return np.stack([grey] * 3, -1)
