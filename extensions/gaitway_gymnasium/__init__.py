"""Any Gymnasium or EnvPool environment, by name: ``make_env(task_named("hopper"), 8)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tasks import GymTask, task_named, task_names

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

__all__ = ["GymTask", "make_env", "task_named", "task_names"]


def make_env(task: GymTask, num_envs: int, *, seed: int = 0, num_threads: int = 0) -> VectorEnv:
    """Build ``num_envs`` environments of ``task``: NumPy, SAME_STEP autoreset.

    ``num_threads`` are EnvPool's; 0 is as many as there are cores, or one where a step is too short to share.
    ``seed`` holds for the first ``reset`` that is not given one. Raises ValueError for an unknown id.
    """
    from .make import build

    return build(task, num_envs, seed=seed, num_threads=num_threads)
