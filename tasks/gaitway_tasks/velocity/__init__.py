"""Velocity tracking: (vx, vy, yaw rate) on flat and on rough ground, with Isaac Lab 2.3.2's values for each robot."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from ..robots import DESCRIPTIONS, Robot
from ..spec import Task
from . import base
from .presets import blind, cpu, sprint

__all__ = ["blind", "cpu", "sprint", "velocity_flat", "velocity_rough"]


def velocity_flat(robot: Robot) -> Task:
    """Track (vx, vy, yaw rate) on flat ground. The actor reads base velocity, as in Isaac Lab's task.

    The values are those of the robot's own task, or ANYmal's for a robot that has none.
    """
    described = DESCRIPTIONS.get(robot.name)
    return _named(described.flat)(robot) if described and described.flat else base.flat(robot)


def velocity_rough(robot: Robot) -> Task:
    """Track (vx, vy, yaw rate) over stairs, boxes and slopes that grow with the robot's skill.

    The actor reads base velocity and a height scan, as in Isaac Lab's task.
    """
    described = DESCRIPTIONS.get(robot.name)
    return _named(described.rough)(robot) if described and described.rough else base.rough(robot)


def _named(name: str) -> Callable[[Robot], Task]:
    module, _, function = name.partition(":")
    made: Callable[[Robot], Task] = getattr(importlib.import_module(module), function)
    return made
