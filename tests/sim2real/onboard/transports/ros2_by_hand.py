"""A robot under ros2_control without physics: says what it is told to say, hears its commands."""

from __future__ import annotations

from typing import Any

import numpy as np
from gaitway_onboard.transports.ros2 import Ros2Robot
from gaitway_onboard.transports.ros2_config import Ros2Config
from gaitway_onboard.wire.declarations import FLOAT64_MULTI_ARRAY, IMU, JOINT_STATE, JOINT_TRAJECTORY
from gaitway_onboard.wire.idl import decode
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_onboard.wire.ros import encode_imu, encode_joint_state, ros_topic
from gaitway_tasks.robots import ANYMAL_C

NAMES = ANYMAL_C.joint_names[::-1]
"""The controller's order, which is not the robot's."""


def anymal(**changes: Any) -> Ros2Config:
    values: dict[str, Any] = {
        "robot": "anymal-c", "joints": NAMES, "interface": "effort", "command": "/effort/commands",
        "effort_limit": 80.0, "velocity_limit": 7.5, "stiffness": 60.0, "damping": 5.0, "stop_damping": 2.0,
        "rate": 500.0,
    }  # fmt: skip
    return Ros2Config(**{**values, **changes})


class HandRobot:
    """The robot's side of a :class:`MemoryBus`: publishes every 2 ms while time passes, unless silenced."""

    def __init__(self, config: Ros2Config, bus: MemoryBus, *, name: str = "robot"):
        self.bus, self.config = bus.join(name), config
        self.names = list(ANYMAL_C.joint_names)
        self.position, self.velocity, self.effort = np.zeros(12), np.zeros(12), np.zeros(12)
        self.quat, self.gyro, self.acceleration = np.array([1.0, 0, 0, 0]), np.zeros(3), np.array([0, 0, 9.81])
        self.joints_speak = self.imu_speaks = True
        kind = FLOAT64_MULTI_ARRAY if config.message == "Float64MultiArray" else JOINT_TRAJECTORY
        self.kind = kind
        self._states = self.bus.publisher(ros_topic(config.joint_states, JOINT_STATE))
        self._imus = self.bus.publisher(ros_topic(config.imu, IMU))
        self._commands = self.bus.subscriber(ros_topic(config.command, kind, depth=100))
        self._next, self.lag = bus.time, 0.0
        bus.attach(self.advance)

    def advance(self, deadline: float) -> None:
        while self._next <= deadline:
            self.bus.time = self._next
            self.speak()
            self._next += 0.002

    def speak(self) -> None:
        now = round(1e9 * (self.bus.time - self.lag)) + 1_700_000_000_000_000_000
        if self.joints_speak:
            self._states.send(encode_joint_state(now, self.names, self.position, self.velocity, self.effort))
        if self.imu_speaks:
            self._imus.send(encode_imu(now, self.quat, self.gyro, self.acceleration))

    def heard(self) -> list[np.ndarray]:
        """Commands since the last call, in the controller's order."""
        messages = [decode(self.kind, payload) for _, payload in self._commands.take_all()]
        return [
            np.array(message["data"] if "data" in message else message["points"][0]["positions"])
            for message in messages
        ]


def pair(**changes: Any) -> tuple[Ros2Robot, HandRobot]:
    """The on-board side and the robot's, not yet connected."""
    bus, config = MemoryBus(), anymal(**changes)
    return Ros2Robot(config, bus), HandRobot(config, bus)
