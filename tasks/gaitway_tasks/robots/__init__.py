"""Gaitway's robots, one folder each. ``ANYMAL_C`` is imported from the folder ``anymal_c``."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import cast

from gaitway_files.hardware import Hardware

from .description import IsaacLabRobot, Learner, Preset, RobotDescription, RobotTask, velocity_tasks
from .known import DESCRIPTIONS, ROBOTS, RobotError
from .robot import ActuatorLaw, DCMotor, ImplicitPD, Mirror, Robot

__all__ = [
    "DESCRIPTIONS",
    "ROBOTS",
    "ActuatorLaw",
    "DCMotor",
    "Hardware",
    "ImplicitPD",
    "IsaacLabRobot",
    "Learner",
    "Mirror",
    "Preset",
    "Robot",
    "RobotDescription",
    "RobotError",
    "RobotTask",
    "velocity_tasks",
]


def __getattr__(name: str) -> Robot:
    if name.isupper() and Path(__file__).with_name(name.lower()).is_dir():
        return cast("Robot", getattr(importlib.import_module(f".{name.lower()}", __name__), name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
