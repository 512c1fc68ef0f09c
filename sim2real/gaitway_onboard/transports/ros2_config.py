"""``ros2.yaml``: a robot under ros2_control, as far as Gaitway has to know it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaitway_files.hardware import Hardware
from gaitway_files.patterns import PatternError, matches
from gaitway_files.reading import FileError
from gaitway_files.yaml_files import read_yaml

from ..interface import DeployError
from ..wire.idl import WireError
from ..wire.ros import TWIST, ros_topic

EFFORT, POSITION = "effort", "position"
ARRAY, TRAJECTORY = "Float64MultiArray", "JointTrajectory"
PerJoint = float | Mapping[str, float]
"""One number for all joints, or one for each pattern of their names; the first pattern that matches counts."""


@dataclass(frozen=True, kw_only=True)
class Ros2Config:
    """The keys of ``ros2.yaml``. Topics are full names, as ``ros2 topic list`` prints them."""

    robot: str
    """The robot's name in bundles, such as "anymal-c"."""
    joints: tuple[str, ...]
    """Joints in the order of the controller's own parameter ``joints``: its messages carry numbers without names."""
    interface: str
    """Quantity that the drives are commanded with: "effort" or "position"."""
    command: str
    """Topic of the controller, such as "/forward_effort_controller/commands"."""
    message: str = ARRAY
    """"Float64MultiArray" for a forward_command_controller, "JointTrajectory" for a joint_trajectory_controller."""
    joint_states: str = "/joint_states"
    imu: str | None = "/imu"
    """Topic of the IMU; None for a robot whose base is fixed."""
    imu_quat_wxyz: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)
    """Orientation of the sensor in the robot's base."""
    cmd_vel: str = "/cmd_vel"
    cmd_vel_stamped: bool = False
    """True if commands come as TwistStamped."""
    rate: float = 400.0
    """Commands per second [Hz], at most the controller manager's ``update_rate``."""
    effort_limit: PerJoint
    """[N m]"""
    velocity_limit: PerJoint
    """[rad/s]; a joint that turns faster is out of control."""
    stiffness: PerJoint
    """kp [N m/rad]: what the drives hold positions with ("position"), or the most that a bundle may ask for."""
    damping: PerJoint
    """kd [N m s/rad], likewise."""
    stop_damping: PerJoint
    """kd of the damping that ends everything [N m s/rad]."""

    def __post_init__(self) -> None:
        if len(set(self.joints)) != len(self.joints):
            raise DeployError("joints lists a name twice")
        if self.interface not in (EFFORT, POSITION):
            raise DeployError(f"interface {self.interface!r}: ros2_control offers {EFFORT} or {POSITION}")
        if self.message not in (ARRAY, TRAJECTORY):
            raise DeployError(f"message {self.message!r}: write {ARRAY} or {TRAJECTORY}")
        if self.message == TRAJECTORY and self.interface == EFFORT:
            raise DeployError(f"{TRAJECTORY} commands positions: use {ARRAY} with the interface {EFFORT}")
        if not 10.0 <= self.rate <= 2000.0:
            raise DeployError(f"rate {self.rate:g}: give commands per second, from 10 to 2000")
        norm = math.sqrt(sum(value * value for value in self.imu_quat_wxyz))
        if len(self.imu_quat_wxyz) != 4 or not 0.999 < norm < 1.001:
            raise DeployError(f"imu_quat_wxyz {list(self.imu_quat_wxyz)}: give a unit quaternion w, x, y, z")
        for topic in (self.command, self.joint_states, *([] if self.imu is None else [self.imu]), self.cmd_vel):
            try:
                ros_topic(topic, TWIST)
            except WireError as error:
                raise DeployError(str(error)) from None
        for key in _PER_JOINT:
            self.per_joint(key)

    def per_joint(self, key: str) -> dict[str, float]:
        """One of the per-joint numbers, by joint."""
        given = getattr(self, key)
        patterns = given if isinstance(given, Mapping) else {".*": given}
        values = {}
        for name in self.joints:
            try:
                matching = [value for pattern, value in patterns.items() if matches(pattern, name)]
            except PatternError as error:
                raise DeployError(f"{key}: {error}") from None
            if not matching:
                raise DeployError(f"{key}: no pattern matches joint {name!r}: {', '.join(patterns)}")
            values[name] = matching[0]
        if bad := [name for name, value in values.items() if not (_number(value) and value > 0.0)]:
            raise DeployError(f"{key} of {bad[0]} is {values[bad[0]]!r}: give a number above zero")
        return values

    def hardware(self) -> Hardware:
        """Hardware of the robot for the on-board half."""
        return Hardware(
            name="ros2",
            robot=self.robot,
            family="ros2",
            motors=self.joints,
            effort_limit=self.per_joint("effort_limit"),
            velocity_limit=self.per_joint("velocity_limit"),
            max_stiffness=self.per_joint("stiffness"),
            max_damping=self.per_joint("damping"),
            damping=self.per_joint("stop_damping"),
            command_period=1.0 / self.rate,
            wire=self,
        )


_PER_JOINT = ("effort_limit", "velocity_limit", "stiffness", "damping", "stop_damping")
_KINDS: dict[str, tuple[type, ...]] = {
    "robot": (str,), "joints": (list,), "interface": (str,), "command": (str,), "message": (str,),
    "joint_states": (str,), "imu": (str, type(None)), "imu_quat_wxyz": (list,), "cmd_vel": (str,),
    "cmd_vel_stamped": (bool,),
    "rate": (int, float), **dict.fromkeys(_PER_JOINT, (int, float, dict)),
}  # fmt: skip


def load_ros2(path: str | Path) -> Ros2Config:
    """Read and check ``ros2.yaml``; raises :class:`DeployError` with the key at fault."""
    path = Path(path)
    try:
        data = read_yaml(path)
    except FileError as error:
        raise DeployError(str(error)) from None
    if not isinstance(data, dict):
        raise DeployError(f"{path}: keys and values are expected; docs/ros2.md has a complete example")
    if unknown := sorted(str(key) for key in data if key not in _KINDS):
        raise DeployError(f"{path}: unknown key {', '.join(unknown)}; known are {', '.join(_KINDS)}")
    needed = [field.name for field in dataclasses.fields(Ros2Config) if field.default is dataclasses.MISSING]
    if missing := [name for name in needed if name not in data]:
        raise DeployError(f"{path}: {', '.join(missing)} must be given; docs/ros2.md has a complete example")
    for key, value in data.items():
        _check(path, key, value)
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    try:
        return Ros2Config(**values)
    except DeployError as error:
        raise DeployError(f"{path}: {error}") from None


def _check(path: Path, key: str, value: Any) -> None:
    kinds = _KINDS[key]
    if not any(isinstance(value, kind) for kind in kinds) or (isinstance(value, bool) and bool not in kinds):
        expected = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
        raise DeployError(f"{path}: {key} is {value!r}, and should be {expected}")
    if key == "joints" and not all(isinstance(name, str) for name in value):
        raise DeployError(f"{path}: joints are names, and {value!r} are not")
    if key == "imu_quat_wxyz" and not all(map(_number, value)):
        raise DeployError(f"{path}: imu_quat_wxyz is {value!r}, and should be four numbers")


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
