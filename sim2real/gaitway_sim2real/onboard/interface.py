"""What a robot, real or simulated, offers to the on-board half. A transport implements :class:`RobotInterface`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


@dataclass(slots=True)
class Signals:
    """One reading of the robot's sensors; joints in the robot's own order."""

    joint_pos: Array
    """[rad], (J,)"""
    joint_vel: Array
    """[rad/s], (J,)"""
    imu_quat_wxyz: Array
    """Orientation of the base in the world, (4,)"""
    gyro: Array
    """Angular velocity in the base frame [rad/s], (3,)"""
    stamp: float
    """When the sensors were read, on the robot's :meth:`RobotInterface.clock` [s]"""
    base_lin_vel: Array | None = None
    """Estimate of the base's velocity in the base frame [m/s], (3,); for policies that ask for it"""
    height_scan: Array | None = None
    """Estimate of the base's height above each point of the contract's ``height_scan`` [m], (P,); likewise"""


class RobotInterface(Protocol):
    """A robot whose drives run ``kp (target - q) - kd qd``. Calls come from one thread, once per control period."""

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The order of every joint array of this robot."""
        ...

    def clock(self) -> float:
        """Monotonic time [s] that control periods and stamps are counted in."""
        ...

    def sleep_until(self, deadline: float) -> None:
        """Return when :meth:`clock` reaches ``deadline``; a simulated robot moves meanwhile."""
        ...

    def read(self) -> Signals:
        """The newest signals; does not wait for new ones."""
        ...

    def write(self, targets: Array, stiffness: Array, damping: Array) -> None:
        """Follow targets [rad] until the next call, with gains kp [N m/rad] and kd [N m s/rad], (J,) each."""
        ...

    def damp(self) -> None:
        """Let every joint resist motion without holding a position (kp = 0). Must work in any state."""
        ...

    def close(self) -> None:
        """Release the transport. The robot is damped before this is called."""
        ...
