"""Register Gaitway's tasks with Gymnasium, as ``Gaitway/Velocity-Flat-Anymal-C-v0`` and so on.

Called when Gymnasium is imported (see :mod:`gaitway.gymnasium_plugin`), so it must not import anything heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .env import MujocoVectorEnv
    from .single import MujocoEnv


def make_vector_env(task_name: str, num_envs: int = 1, preset: str | None = None, **kwargs: Any) -> MujocoVectorEnv:
    """Vector entry point: ``gymnasium.make_vec(id, num_envs=64, seed=0, preset="cpu", num_threads=2, ...)``."""
    from gaitway_tasks.registry import get_task

    from . import make_env

    kwargs.pop("render_mode", None)
    return make_env(get_task(task_name, preset), num_envs, **kwargs)


def make_single_env(task_name: str, preset: str | None = None, **kwargs: Any) -> MujocoEnv:
    """Entry point of one environment: ``gymnasium.make(id, preset="cpu", action_limit=3.0, ...)``."""
    from gaitway_tasks.registry import get_task

    from .single import MujocoEnv

    kwargs.pop("render_mode", None)
    return MujocoEnv(get_task(task_name, preset), **kwargs)


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
