"""Atari games, by the names of their ROMs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gaitway_tasks.registry import UnknownNameError

from ..catalogue import WORLDS, install_line
from .environments import Environments
from .request import Request

if TYPE_CHECKING:
    from gaitway_ale import AtariTask
    from gymnasium.vector import VectorEnv

    from ..train_config import TrainConfig
    from .domain import Frame

SCALE = 3  # of a film, by the screen


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

        games = gaitway_ale.make_env(task, 1, seed=seed, render_mode="rgb_array")

        def picture(observation: Any) -> Frame:
            screen: Any = games.render()
            return screen[0].repeat(SCALE, 0).repeat(SCALE, 1)

        return adapt(games), picture, games.metadata["render_fps"]
