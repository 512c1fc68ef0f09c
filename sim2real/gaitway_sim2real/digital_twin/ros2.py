"""The robot's end of ros2_control's topics: joint states and IMU out, a forwarding or trajectory controller in."""

from __future__ import annotations

import numpy as np
from gaitway_files.hardware import Hardware
from gaitway_onboard.interface import Array, Remote
from gaitway_onboard.rotation import matrix_from_quat, quat_mul
from gaitway_onboard.transports.ros2_config import ARRAY, EFFORT, Ros2Config
from gaitway_onboard.wire.bus import Bus
from gaitway_onboard.wire.declarations import FLOAT64_MULTI_ARRAY, IMU, JOINT_STATE, JOINT_TRAJECTORY
from gaitway_onboard.wire.idl import WireError, decode
from gaitway_onboard.wire.ros import encode_imu, encode_joint_state, ros_topic

from .command import Command, Counters
from .faults import Fault
from .sensors import Reading
from .side import Send, Side

QUEUE = 64  # commands that may come between two looks


class Ros2Side(Side):
    """Speaks for a robot whose joints are in the order of the configuration; joint states name them alphabetically.

    With "effort" a command is the torque; with "position" the drives hold it with the gains of the configuration. A
    trajectory is taken by its first point, at once.
    """

    sport = None

    def __init__(self, bus: Bus, hardware: Hardware, *_: object, **__: object):
        config: Ros2Config = hardware.wire
        self.bus, self.config = bus, config
        self.counters, self.remote = Counters(), Remote()
        self._kind = FLOAT64_MULTI_ARRAY if config.message == ARRAY else JOINT_TRAJECTORY
        self.command_topic = ros_topic(config.command, self._kind, depth=QUEUE)
        self.commands = bus.subscriber(self.command_topic)
        self._out = [ros_topic(config.joint_states, JOINT_STATE)]
        self._out += [] if config.imu is None else [ros_topic(config.imu, IMU)]
        self._sends = self.double(obeys=False)
        self._order = np.argsort(config.joints)
        self._names = [config.joints[i] for i in self._order]
        self._kp, self._kd = (
            np.array([config.per_joint(key)[name] for name in config.joints]) for key in ("stiffness", "damping")
        )
        self._sensor = np.array(config.imu_quat_wxyz)
        self._into_sensor = matrix_from_quat(self._sensor).T
        self._stamped: tuple[Reading | None, int] = (None, 0)

    @staticmethod
    def period_of(hardware: Hardware) -> float:
        return hardware.command_period

    @staticmethod
    def faults_of(hardware: Hardware) -> frozenset[Fault]:
        return frozenset(Fault) - {
            Fault.CHECKSUM, Fault.CORRUPT, Fault.TEMPERATURE, Fault.BATTERY, Fault.LOST, Fault.STOP, Fault.SELECT,
            Fault.TAKEN,
        }  # fmt: skip

    @property
    def sends(self) -> tuple[str, ...]:
        topics = " and ".join(filter(None, (self.config.joint_states, self.config.imu)))
        return (f"{topics} at {self.config.rate:g} Hz",)

    @property
    def obeys(self) -> tuple[str, ...]:
        return (f"{self.config.command} ({self.config.message} of {self.config.interface})",)

    def state(self, now: float, reading: Reading, intact: bool) -> list[tuple[Send, bytes]]:
        if reading is not self._stamped[0]:  # a frozen state has an old stamp
            self._stamped = reading, round(1e9 * now)
        stamp, order, quat = self._stamped[1], self._order, quat_mul(reading.quat_wxyz, self._sensor)
        joints = encode_joint_state(
            stamp, self._names, reading.joint_pos[order], reading.joint_vel[order], reading.joint_torque[order]
        )
        gyro, accelerometer = self._into_sensor @ reading.gyro, self._into_sensor @ reading.accelerometer
        imu = encode_imu(stamp, quat, gyro, accelerometer)
        return list(zip(self._sends, (joints, imu), strict=self.config.imu is not None))

    def decode(self, payload: bytes) -> Command | None:
        values = self._values(payload)
        if values is None:
            self.counters.foreign += 1
            return None
        if not np.isfinite(values).all():
            self.counters.not_finite += 1
            return None
        self.counters.accepted += 1
        zeros, on = np.zeros(len(values)), np.ones(len(values), bool)
        if self.config.interface == EFFORT:
            return Command(on, zeros, zeros, values, zeros, zeros)
        return Command(on, values, zeros, zeros, self._kp, self._kd)

    def _values(self, payload: bytes) -> Array | None:
        """Commanded values, in the order of the configuration; None if the controller would refuse them."""
        joints = self.config.joints
        try:
            message = decode(self._kind, payload)
        except WireError:
            return None
        if self._kind is FLOAT64_MULTI_ARRAY:
            values, names = np.array(message["data"]), list(joints)
        else:
            values = np.array(message["points"][0]["positions"]) if message["points"] else np.zeros(0)
            names = message["joint_names"]
        if len(values) != len(joints) or sorted(names) != sorted(joints):
            return None
        return values[[names.index(name) for name in joints]]

    def double(self, obeys: bool) -> list[Send]:
        if obeys:
            self.bus.subscriber(self.command_topic)
        return [self.bus.publisher(topic).send for topic in self._out]
