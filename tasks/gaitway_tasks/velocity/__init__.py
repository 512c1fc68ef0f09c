"""Velocity tracking: (vx, vy, yaw rate) on flat and on rough ground, with Isaac Lab 2.3.2's values for each robot."""

from __future__ import annotations

from types import ModuleType

from ..robots import Robot
from ..spec import Task
from . import base, g1, h1, unitree
from .presets import blind, cpu, sprint

__all__ = ["blind", "cpu", "sprint", "velocity_flat", "velocity_rough"]

FAMILIES: dict[str, ModuleType] = {"a1": unitree, "go1": unitree, "go2": unitree, "h1": h1, "g1": g1}
"""Modules with ``flat(robot)`` and ``rough(robot)`` by the robot's name; robots without one share ANYmal's values."""


def velocity_flat(robot: Robot) -> Task:
    """Track (vx, vy, yaw rate) on flat ground. The actor reads base velocity, as in Isaac Lab's task."""
    return _family(robot).flat(robot)


def velocity_rough(robot: Robot) -> Task:
    """Track (vx, vy, yaw rate) over stairs, boxes and slopes that grow with the robot's skill.

    The actor reads base velocity and a height scan, as in Isaac Lab's task.
    """
    return _family(robot).rough(robot)


def _family(robot: Robot) -> ModuleType:
    return FAMILIES.get(robot.name, base)
