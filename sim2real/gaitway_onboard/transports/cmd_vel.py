"""Velocity commands from a ROS 2 topic, such as those of teleop_twist_keyboard or Nav2."""

from __future__ import annotations

import math

from ..control.commands import STILL, Command
from ..wire.bus import Bus
from ..wire.declarations import TWIST, TWIST_STAMPED
from ..wire.idl import WireError
from ..wire.ros import read_twist, ros_topic

STALE = 0.5


class CmdVel:
    """A :data:`gaitway_onboard.control.commands.CommandSource`: the newest Twist, and zero once it is too old."""

    def __init__(self, bus: Bus, topic: str = "/cmd_vel", *, stamped: bool = False, stale: float = STALE):
        """``stamped`` for TwistStamped; after ``stale`` seconds of silence the robot is to stand still."""
        self.bus, self.stamped, self.stale = bus, stamped, stale
        self._subscriber = bus.subscriber(ros_topic(topic, TWIST_STAMPED if stamped else TWIST, reliable=False))
        self._command: Command = STILL
        self._came = -math.inf

    def __call__(self, seconds: float) -> Command:
        """vx, vy [m/s], yaw rate [rad/s]. An unreadable message, or one that is not finite, counts as zero."""
        if (taken := self._subscriber.take()) is not None:
            self._came, payload = taken
            try:
                command: Command = read_twist(payload, self.stamped)
            except WireError:
                command = STILL
            self._command = command if all(map(math.isfinite, command)) else STILL
        return self._command if self.bus.clock() - self._came <= self.stale else STILL
