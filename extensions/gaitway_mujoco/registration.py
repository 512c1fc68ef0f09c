"""Register Gaitway's tasks with Gymnasium, as ``Gaitway/Velocity-Flat-Anymal-C-v0`` and so on.

Called when Gymnasium is imported (see :mod:`gaitway.gymnasium_plugin`), so it must not import anything heavy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError

if TYPE_CHECKING:
    from .env import MujocoVectorEnv
    from .single import MujocoEnv


def make_vector_env(task_name: str, num_envs: int = 1, preset: str | None = None, **kwargs: Any) -> MujocoVectorEnv:
    """Vector entry point: ``gymnasium.make_vec(id, num_envs=64, seed=0, preset="cpu", num_threads=2, ...)``.

    ``max_episode_steps`` replaces the task's time limit.
    """
    from gaitway_tasks.registry import get_task

    from . import make_env

    _refuse_frames(kwargs)
    task = get_task(task_name, preset)
    if (steps := kwargs.pop("max_episode_steps", None)) is not None:
        task = task.replace(timing=replace(task.timing, episode_length_s=steps * task.timing.step_dt))
    return make_env(task, num_envs, **kwargs)


def make_single_env(task_name: str, preset: str | None = None, **kwargs: Any) -> MujocoEnv:
    """Entry point of one environment: ``gymnasium.make(id, preset="cpu", action_limit=3.0, ...)``."""
    from gaitway_tasks.registry import get_task

    from .single import MujocoEnv

    _refuse_frames(kwargs)
    return MujocoEnv(get_task(task_name, preset), **kwargs)


def _refuse_frames(kwargs: dict[str, Any]) -> None:
    if (mode := kwargs.pop("render_mode", None)) is not None:
        raise UserError(
            f"render_mode={mode!r}: these environments draw no frames; leave it out, and film what was trained with "
            "gaitway play RUN --video FILE.mp4"
        )


def register() -> None:
    """Register the flat tasks of Gaitway's own robots. Those of other packages would be imported with Gymnasium."""
    import gymnasium
    from gaitway_tasks.registry import task_names

    for name in task_names(installed=False):
        env_id = f"Gaitway/{name.title()}-v0"
        if env_id not in gymnasium.registry:
            gymnasium.register(
                env_id,
                entry_point="gaitway_mujoco.registration:make_single_env",
                vector_entry_point="gaitway_mujoco.registration:make_vector_env",
                kwargs={"task_name": name},
            )
