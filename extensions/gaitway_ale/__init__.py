"""Atari 2600 games through ale-py, by name: ``make_env(task_named("breakout"), 8)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tasks import AtariTask, games, task_named

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

__all__ = ["AtariTask", "games", "make_env", "task_named"]


def make_env(
    task: AtariTask, num_envs: int, *, seed: int = 0, num_threads: int = 0, render_mode: str | None = None
) -> VectorEnv:
    """Build ``num_envs`` games of ``task``: NumPy, SAME_STEP autoreset.

    ``num_threads=0`` uses every core; games seen through their memory run on one. ``seed`` holds for the first
    ``reset`` that is not given one. With ``render_mode="rgb_array"``, ``render()`` returns the screens, each
    (210, 160, 3) uint8. ROMs are those in ale-py's wheel; nothing is downloaded.
    """
    from .vector_env import AtariGames

    return AtariGames(task, num_envs, seed=seed, num_threads=num_threads, render_mode=render_mode)
