"""Settings of Isaac Lab's simulation. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass

from gaitway_files.errors import UserError

from .preflight import PHYSICS


@dataclass(frozen=True, kw_only=True)
class IsaacLabOptions:
    """Settings of Isaac Lab's simulation of a task."""

    physics: str | None = None
    """"physx" or, on Isaac Lab 3.0, "newton"; None takes PhysX where it is installed, else Newton."""
    asset: str = "auto"
    """The robot: "nucleus" (Isaac Lab's own), "mjcf" (made from Gaitway's) or "auto", Isaac Lab's if within reach."""
    actuators: str = "task"
    """"task" for the task's drives, "isaaclab" for the drives of Isaac Lab's robot, such as ANYmal's LSTM network."""

    def __post_init__(self) -> None:
        for name, known in (
            ("physics", (None, *PHYSICS)),
            ("asset", ("auto", "nucleus", "mjcf")),
            ("actuators", ("task", "isaaclab")),
        ):
            if getattr(self, name) not in known:
                words = ", ".join(str(word) for word in known if word is not None)
                raise UserError(f"isaaclab.{name} {getattr(self, name)!r}: use one of {words}")
