"""What the on-board half must know of a robot. Data only: the caller fills it in from the robot's facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """One product. Mappings are by joint name, and have every joint of :attr:`joint_names`."""

    name: str
    """What ``--robot`` says, such as "unitree-go2"."""
    robot: str
    """The robot's name in bundles: :attr:`gaitway_onboard.bundle.contract.Contract.robot`."""
    family: str
    """The transport: a key of :data:`gaitway_onboard.transports.open.TRANSPORTS`, or ``module:name``."""
    motors: tuple[str | None, ...]
    """Joint driven by each motor slot, in the order of the wire; None for a slot that drives nothing."""
    effort_limit: Mapping[str, float]
    """[N m]; no command may ask for more."""
    velocity_limit: Mapping[str, float]
    """[rad/s]; a joint that turns faster is out of control."""
    max_stiffness: Mapping[str, float]
    """Largest kp that a bundle may ask for [N m/rad]."""
    max_damping: Mapping[str, float]
    """Largest kd that a bundle may ask for [N m s/rad]."""
    damping: Mapping[str, float]
    """kd of the damping that ends everything [N m s/rad]."""
    joint_limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Range of each joint [rad]; a bundle with a wider one is refused. Empty if it is not known."""
    feet: tuple[str, ...] = ()
    """Foot under each force sensor, in the order of the wire; empty where there are none."""
    command_period: float = 0.002
    """Time between two commands [s]."""
    max_motor_temperature: float = 80.0
    """[degrees C]"""
    min_battery: float = 0.1
    """State of charge below which no policy starts, and a running one ends; of 1."""
    enable: Mapping[str, int] = field(default_factory=dict)
    """Unitree: mode byte that switches each joint's motor on."""
    mode_machines: Mapping[int, str] = field(default_factory=dict)
    """Unitree: values of ``mode_machine`` that this robot may report, and what they mean."""
    mode_pr: int = 0
    """Unitree: how parallel ankles and waists are driven: 0 by pitch and roll, 1 by their two motors."""
    imu_joint: str | None = None
    """Unitree: joint about z that carries the IMU away from the base; None for an IMU in the base."""
    stand_down: tuple[str, int] | None = None
    """Unitree: service and function that lay the robot down before its own controller is switched off."""
    wire: Any = None
    """What only the transport reads, such as the :class:`.transports.ros2_config.Ros2Config` of a robot on ROS 2."""

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Driven joints in the order of the wire."""
        return tuple(name for name in self.motors if name is not None)
