"""Gaitway tasks on MuJoCo: batched physics on all cores of a CPU, behind Gymnasium's vector API in torch."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError

if TYPE_CHECKING:
    from gaitway_tasks.spec import Task

    from .env import MujocoVectorEnv


def make_env(task: Task, num_envs: int, *, seed: int = 0, num_threads: int = 0, **options: Any) -> MujocoVectorEnv:
    """Build ``num_envs`` environments of ``task``; ``num_threads=0`` uses every core.

    ``options`` are fields of :class:`gaitway_mujoco.options.PhysicsOptions`.
    """
    from .env import MujocoVectorEnv
    from .options import PhysicsOptions

    known = [field.name for field in fields(PhysicsOptions)]
    if unknown := sorted(options.keys() - set(known)):
        raise UserError(f"{unknown[0]}={options[unknown[0]]!r} is no setting of these environments: {', '.join(known)}")
    return MujocoVectorEnv(task, num_envs, seed=seed, num_threads=num_threads, options=PhysicsOptions(**options))
