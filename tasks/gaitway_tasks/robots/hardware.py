"""Low-level interface of a robot: motor slots, modes and motor limits. Data only, stdlib only.

The on-board half reads this on the robot's computer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gaitway_files.errors import UserError

from ..patterns import matches

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """One product. Joints are named as in :class:`gaitway_tasks.robots.Robot`; mappings are by joint name."""

    name: str
    """Name for ``--robot``, such as "unitree-go2"."""
    robot: str
    """Name of the :class:`gaitway_tasks.robots.Robot` whose joints these are."""
    family: str
    """The transport: a row of ``gaitway_onboard/transports/open.py``, or ``module:name`` of your own."""
    motors: tuple[str | None, ...]
    """Joint driven by each motor slot, in the order of the wire; None for a slot that drives nothing."""
    enable: Mapping[str, int]
    """Mode byte that switches each joint's motor on."""
    effort_limit: Mapping[str, float]
    """Largest torque that a command may ask for [N m]."""
    velocity_limit: Mapping[str, float]
    """Largest joint speed [rad/s]; a faster joint counts as out of control."""
    max_stiffness: Mapping[str, float]
    """Largest kp that a bundle may ask for [N m/rad]."""
    max_damping: Mapping[str, float]
    """Largest kd that a bundle may ask for [N m s/rad]."""
    damping: Mapping[str, float]
    """kd of the final damping mode [N m s/rad]."""
    mode_machines: Mapping[int, str] = field(default_factory=dict)
    """Values of ``mode_machine`` that this definition fits, and what they mean; empty where the wire has none."""
    mode_pr: int = 0
    """How parallel ankles and waists are driven, "unitree_hg" only: 0 by pitch and roll, 1 by their two motors."""
    feet: tuple[str, ...] = ()
    """Foot under each force sensor, in the order of the wire; empty where there are none."""
    imu_joint: str | None = None
    """Joint about z that carries the IMU away from the base, such as a waist; None for an IMU in the base."""
    stand_down: tuple[str, int] | None = None
    """Service and function that lay the robot down before its own controller is switched off."""
    command_period: float = 0.002
    """Time between two command frames [s]."""
    max_motor_temperature: float = 80.0
    """[degrees C]"""
    min_battery: float = 0.1
    """State of charge, from 0 to 1, below which no policy starts and a running one ends."""
    wire: Any = None
    """Settings that only your own transport reads."""

    def __post_init__(self) -> None:
        joints = self.joint_names
        if twice := sorted({name for name in joints if joints.count(name) > 1}):
            raise UserError(f"{self.name}: motors lists {', '.join(twice)} twice")
        for key in PER_JOINT:
            values: Mapping[str, float] = getattr(self, key)
            if wrong := sorted(set(joints) ^ set(values)):
                raise UserError(f"{self.name}: {key} must have each joint of motors, and has not: {', '.join(wrong)}")
            if bad := [name for name in joints if not values[name] > 0]:
                raise UserError(f"{self.name}: {key} of {bad[0]} is {values[bad[0]]}, and must be positive")
        if self.imu_joint is not None and self.imu_joint not in joints:
            raise UserError(f"{self.name}: imu_joint {self.imu_joint!r} is none of its motors'")
        if not self.command_period > 0:
            raise UserError(f"{self.name}: command_period is {self.command_period}, and must be positive")

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Driven joints in the order of the wire."""
        return tuple(name for name in self.motors if name is not None)


PER_JOINT = ("enable", "effort_limit", "velocity_limit", "max_stiffness", "max_damping", "damping")


def by_pattern(joints: Iterable[str | None], values: Mapping[str, T]) -> dict[str, T]:
    """Value for each joint: that of the first regular expression in ``values`` that matches its whole name."""
    found = {}
    for name in joints:
        if name is None:
            continue
        matching = [value for pattern, value in values.items() if matches(pattern, name)]
        if not matching:
            raise UserError(f"no pattern matches joint {name!r}: {', '.join(values)}")
        found[name] = matching[0]
    return found
