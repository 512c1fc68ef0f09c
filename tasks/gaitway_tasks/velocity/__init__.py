"""Velocity tracking: (vx, vy, yaw rate) on flat and on rough ground, with Isaac Lab 2.3.2's values for each robot."""

from __future__ import annotations

from collections.abc import Callable

from ..robots import DESCRIPTIONS, Robot
from ..robots.description import FLAT_TASK, ROUGH_TASK
from ..spec import Task
from . import base
from .isaac_lab_3 import ISAACLAB3, isaaclab3
from .presets import CPU, SPRINT, blind, cpu, sprint

__all__ = [
    "CPU", "ISAACLAB3", "SPRINT", "blind", "blind_flat", "blind_rough", "cpu", "isaaclab3", "sprint", "velocity_flat",
    "velocity_rough",
]  # fmt: skip


def velocity_flat(robot: Robot) -> Task:
    """Track (vx, vy, yaw rate) on flat ground. The actor reads base velocity, as in Isaac Lab's task.

    The values are those of the robot's own task, or ANYmal's for a robot that has none.
    """
    return _own(robot, FLAT_TASK, base.flat)


def velocity_rough(robot: Robot) -> Task:
    """Track (vx, vy, yaw rate) over stairs, boxes and slopes that grow with the robot's skill.

    The actor reads base velocity and a height scan, as in Isaac Lab's task.
    """
    return _own(robot, ROUGH_TASK, base.rough)


def blind_flat(robot: Robot) -> Task:
    """:func:`velocity_flat` from what a robot measures."""
    return blind(velocity_flat(robot))


def blind_rough(robot: Robot) -> Task:
    """:func:`velocity_rough` from what a robot measures."""
    return blind(velocity_rough(robot))


def _own(robot: Robot, name: str, common: Callable[[Robot], Task]) -> Task:
    described = DESCRIPTIONS.get(robot.name)
    return (described.tasks.get(name, common) if described else common)(robot)
