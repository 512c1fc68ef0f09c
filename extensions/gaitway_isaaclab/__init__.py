"""Gaitway's tasks inside Isaac Lab 2.3 and 3.0, as its own manager-based environments.

Importing this package registers ``Gaitway-Velocity-Flat-Anymal-C-v0`` and its kin with Gymnasium. It starts no
simulator and imports nothing of Isaac Lab; :func:`env_cfg` does, so call it when the simulator runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import application
from .registration import register

if TYPE_CHECKING:
    from gaitway_tasks.spec import Task

__all__ = ["env_cfg", "register"]


def env_cfg(
    task: Task,
    num_envs: int = 4096,
    device: str = "cuda:0",
    seed: int | None = None,
    physics: str | None = None,
    *,
    asset: str | None = None,
    actuators: str = "task",
) -> Any:
    """The ``ManagerBasedRLEnvCfg`` of ``task``; see :func:`gaitway_isaaclab.build.env_cfg`."""
    from .build import env_cfg as build

    return build(task, num_envs, device, seed, physics, asset=asset, actuators=actuators)


if not application.is_first_to_start():  # Gymnasium loads numpy
    register()
