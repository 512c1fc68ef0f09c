"""Hardware of a robot as its wire sees it: motor slots, modes and limits. Data only.

A robot's definition writes it down, and the on-board half reads it on the robot's computer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import UserError


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """One product. Mappings are by joint name; those of :data:`PER_JOINT` have every joint of :attr:`joint_names`."""

    name: str
    """Name for ``--robot``, such as "unitree-go2"."""
    robot: str
    """Name in bundles of the robot whose joints these are."""
    family: str
    """The transport: a row of ``gaitway_onboard/transports/open.py``, or ``module:name`` of your own."""
    motors: tuple[str | None, ...]
    """Joint driven by each motor slot, in the order of the wire; None for a slot that drives nothing."""
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
    joint_limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Range of each joint [rad], filled in from the robot's definition; a bundle with a wider one is refused."""
    enable: Mapping[str, int] = field(default_factory=dict)
    """Mode byte that switches each joint's motor on; empty where the wire has none."""
    mode_machines: Mapping[int, str] = field(default_factory=dict)
    """Values of ``mode_machine`` that this definition fits, and what they mean; empty where the wire has none."""
    mode_pr: int = 0
    """Drive mode of parallel ankles and waists, "unitree_hg" only: 0 by pitch and roll, 1 by their two motors."""
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
    """Settings that only the transport reads, such as the configuration of a robot on ROS 2."""

    def __post_init__(self) -> None:
        joints = self.joint_names
        if twice := sorted({name for name in joints if joints.count(name) > 1}):
            raise UserError(f"{self.name}: motors lists {', '.join(twice)} twice")
        for key in PER_JOINT:
            values: Mapping[str, float] = getattr(self, key)
            if key == "enable" and not values:
                continue
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
