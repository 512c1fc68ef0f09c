"""ROS 2's messages and names on plain DDS: what a robot under ros2_control says and hears. numpy only.

Quaternions are x, y, z, w in ROS and w, x, y, z here; this module is where they change.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..interface import Array
from .bus import Topic
from .declarations import FLOAT64_MULTI_ARRAY, IMU, JOINT_STATE, JOINT_TRAJECTORY, TWIST, TWIST_STAMPED
from .idl import HEADER, Struct, WireError, check_header, decode, encode

Payload = bytes | bytearray | memoryview

_STAMP = slice(len(HEADER), len(HEADER) + 8)
_IMU_NUMBERS = 4 + 9 + 3 + 9 + 3 + 9
_XYZW, _WXYZ = [1, 2, 3, 0], [3, 0, 1, 2]


def ros_topic(name: str, kind: Struct, *, reliable: bool = True, depth: int = 10) -> Topic:
    """The DDS topic behind a ROS topic such as "/joint_states"; QoS as rclcpp's default.

    A reader with ``reliable=False``, as in rclcpp's SensorDataQoS, hears writers of either kind.
    """
    if not name.startswith("/") or name.endswith("/") or "//" in name or any(c.isspace() for c in name):
        raise WireError(f"{name!r} is no full ROS topic name: write it as ros2 topic list does, such as /joint_states")
    return Topic(f"rt{name}", kind.name, reliable=reliable, depth=depth)


LARGEST = 1 << 16
"""Bytes of a JointState that are looked at: those of a thousand joints. Unpacking more takes longer than a period."""


@dataclass(slots=True)
class JointReading:
    """One JointState; arrays in the order that its reader was made for, (J,)."""

    stamp: int
    """Stamp of its header [ns]."""
    position: Array
    """[rad]"""
    velocity: Array | None
    """[rad/s]; None if the message has none"""
    effort: Array | None
    """[N m]; likewise"""


class JointStateReader:
    """Reads JointState messages that name their joints in any order, others among them.

    Publishers repeat the same names, so these are looked up only when they change.
    """

    def __init__(self, joints: Sequence[str]):
        self.joints = tuple(joints)
        self.missing: tuple[str, ...] = ()
        """Joints that the newest message lacked."""
        self._prefix, self._length = b"", 0  # frame_id and names, and length, of the message that the rest is true of
        self._counts: list[tuple[int, int, int]] = []  # where it is, what it is, where the numbers begin
        self._index = np.zeros(0, np.intp)

    def read(self, payload: Payload) -> JointReading | None:
        """The message in this order, or None if it is of other joints. Raises :class:`WireError` on nonsense."""
        data = memoryview(payload)
        if not self._known(data):
            self._length, self.missing = 0, ()  # nothing is known if this is nonsense
            self._learn(payload)
        if self.missing:
            return None
        position, velocity, effort = (
            np.frombuffer(data, "<f8", count, start)[self._index] if count else None for _, count, start in self._counts
        )
        assert position is not None
        return JointReading(_nanoseconds(data), position, velocity, effort)

    def _known(self, data: memoryview) -> bool:
        if len(data) != self._length or data[:2] != HEADER[:2] or data[12 : 12 + len(self._prefix)] != self._prefix:
            return False
        return all(_uint32(data, at) == count for at, count, _ in self._counts)

    def _learn(self, payload: Payload) -> None:
        if len(payload) > LARGEST:
            raise WireError(f"JointState of {len(payload)} bytes: at most {LARGEST} are read")
        message = decode(JOINT_STATE, payload)
        data, names = memoryview(payload), message["name"]
        at = _after_string(data, 12)
        at = _aligned(at, 4) + 4
        for _ in names:
            at = _after_string(data, at)
        prefix, counts = bytes(data[12:at]), []
        for key in ("position", "velocity", "effort"):
            count = len(message[key])
            if count not in ((len(names),) if key == "position" else (0, len(names))):
                raise WireError(f"JointState has {len(names)} names and {count} numbers of {key}")
            at = _aligned(at, 4)
            start = _aligned(at + 4, 8)
            counts.append((at, count, start))
            at = start + 8 * count if count else at + 4
        if twice := [joint for joint in self.joints if names.count(joint) > 1]:
            raise WireError(f"JointState names {', '.join(twice)} more than once")
        self.missing = tuple(joint for joint in self.joints if joint not in names)
        if not self.missing:
            self._index = np.array([names.index(joint) for joint in self.joints], np.intp)
        self._prefix, self._length, self._counts = prefix, len(data), counts


@dataclass(slots=True)
class ImuReading:
    """One Imu message, in the frame of the sensor."""

    stamp: int
    """Stamp of its header [ns]."""
    quat_wxyz: Array
    """Orientation of the sensor in the world, (4,)"""
    gyro: Array
    """[rad/s], (3,)"""
    accelerometer: Array
    """Specific force [m/s^2], (3,)"""
    oriented: bool
    """True if there is an orientation: ROS says by a covariance of -1 that there is none."""


def read_imu(payload: Payload) -> ImuReading:
    """Raises :class:`WireError` if the payload is no Imu."""
    numbers = _after_header(payload, IMU, _IMU_NUMBERS)
    return ImuReading(
        _nanoseconds(memoryview(payload)), numbers[_WXYZ], numbers[13:16], numbers[25:28], bool(numbers[4] != -1.0)
    )


def read_twist(payload: Payload, stamped: bool) -> tuple[float, float, float]:
    """vx, vy [m/s] and yaw rate [rad/s] of a Twist or TwistStamped; raises :class:`WireError` if it is neither."""
    if stamped:
        numbers = _after_header(payload, TWIST_STAMPED, 6)
    else:
        check_header(payload, TWIST.name)
        if len(payload) != len(HEADER) + 48:
            raise WireError(f"{TWIST.name}: {len(payload)} bytes are no such message")
        numbers = np.frombuffer(payload, "<f8", 6, len(HEADER))
    return float(numbers[0]), float(numbers[1]), float(numbers[5])


def encode_joint_state(
    stamp: int, names: Sequence[str], position: ArrayLike, velocity: ArrayLike = (), effort: ArrayLike = ()
) -> bytes:
    """A JointState of this time [ns]."""
    return encode(
        JOINT_STATE,
        {"header": _header(stamp), "name": names, "position": position, "velocity": velocity, "effort": effort},
    )


def encode_imu(stamp: int, quat_wxyz: Array, gyro: ArrayLike, accelerometer: ArrayLike) -> bytes:
    """An Imu of this time [ns], its covariances unknown."""
    vectors = [dict(zip("xyz", np.asarray(vector, float).tolist(), strict=True)) for vector in (gyro, accelerometer)]
    orientation = dict(zip("xyzw", np.asarray(quat_wxyz, float)[_XYZW].tolist(), strict=True))
    return encode(
        IMU,
        {
            "header": _header(stamp),
            "orientation": orientation,
            "angular_velocity": vectors[0],
            "linear_acceleration": vectors[1],
        },
    )


class CommandFrame:
    """A preallocated Float64MultiArray, or JointTrajectory of one point, for ros2_control."""

    def __init__(self, kind: Struct, joints: Sequence[str], period: float):
        """A point of a trajectory is to be reached within ``period`` [s] of its arrival."""
        marks = np.full(len(joints), np.pi)
        if kind is FLOAT64_MULTI_ARRAY:
            message: dict[str, object] = {"data": marks}
        elif kind is JOINT_TRAJECTORY:
            point = {"positions": marks, "time_from_start": _time(round(1e9 * period))}
            message = {"joint_names": list(joints), "points": [point]}
        else:
            raise WireError(f"{kind.name} is no command of ros2_control")
        self.payload = bytearray(encode(kind, message))
        start = self.payload.index(marks.astype("<f8").tobytes())
        self.values = np.frombuffer(self.payload, "<f8", len(joints), start)
        """What is commanded, a view into :attr:`payload`, (J,)"""
        self.values[:] = 0.0


def _header(stamp: int) -> dict[str, object]:
    return {"stamp": _time(stamp)}


def _time(nanoseconds: int) -> dict[str, int]:
    return {"sec": nanoseconds // 1_000_000_000, "nanosec": nanoseconds % 1_000_000_000}


def _nanoseconds(data: memoryview) -> int:
    seconds, rest = struct.unpack("<iI", data[_STAMP])
    return int(1_000_000_000 * seconds + rest)


def _after_header(payload: Payload, kind: Struct, count: int) -> np.ndarray:
    """The ``count`` numbers that follow a std_msgs/Header and end the message."""
    check_header(payload, kind.name)
    data = memoryview(payload)
    try:
        start = _aligned(_after_string(data, 12), 8)
    except struct.error:
        start = -1
    if start < 0 or len(data) != start + 8 * count:
        raise WireError(f"{kind.name}: {len(data)} bytes are no such message")
    return np.frombuffer(data, "<f8", count, start)


def _aligned(at: int, size: int) -> int:
    """The next multiple of ``size``, counted from the end of the encapsulation header as CDR does."""
    return at + -(at - len(HEADER)) % size


def _after_string(data: memoryview, at: int) -> int:
    at = _aligned(at, 4)
    return at + 4 + _uint32(data, at)


def _uint32(data: memoryview, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])
