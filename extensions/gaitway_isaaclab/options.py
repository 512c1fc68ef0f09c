"""Settings of Isaac Lab's simulation. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gaitway_files.ranges import Checked, one_of

from .preflight import PHYSICS


@dataclass(frozen=True, kw_only=True)
class IsaacLabOptions(Checked):
    """Settings of Isaac Lab's simulation of a task."""

    physics: Annotated[str, one_of(*PHYSICS)] | None = None
    """"physx" or, on Isaac Lab 3.0, "newton"; None takes PhysX where it is installed, else Newton."""
    asset: Annotated[str, one_of("auto", "nucleus", "mjcf")] = "auto"
    """The robot: "nucleus" (Isaac Lab's own), "mjcf" (made from Gaitway's) or "auto", Isaac Lab's if within reach."""
    actuators: Annotated[str, one_of("task", "isaaclab")] = "task"
    """"task" for the task's drives, "isaaclab" for the drives of Isaac Lab's robot, such as ANYmal's LSTM network."""
