"""Gaitway tasks on MuJoCo: batched physics on all cores of a CPU, behind Gymnasium's vector API in torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gaitway_tasks.spec import Task

    from .env import MujocoVectorEnv


def make_env(task: Task, num_envs: int, *, seed: int = 0, num_threads: int = 0, **options: Any) -> MujocoVectorEnv:
    """Build ``num_envs`` environments of ``task``; ``num_threads=0`` uses every core.

    ``options`` are fields of :class:`gaitway_mujoco.options.PhysicsOptions`.
    """
    from .env import MujocoVectorEnv
    from .options import PhysicsOptions

    return MujocoVectorEnv(task, num_envs, seed=seed, num_threads=num_threads, options=PhysicsOptions(**options))
