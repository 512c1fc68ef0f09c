"""Imperfections of a robot and its wire. All are off by default, and the same for the same seed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.reading import FileError
from gaitway_files.yaml_files import read_yaml
from gaitway_tasks.robots.parameters import RobotParameters
from gaitway_tasks.robots.parameters_file import load_parameters

GLITCHES = ("nan", "zero", "jump")
SWITCHERS = ("normal", "slow", "absent", "nonsense", "stubborn")
WRITERS = ("leaves", "stays")


class QuirkError(UserError):
    """A quirk that is unknown or out of range, with what is allowed."""


@dataclass(frozen=True, kw_only=True)
class Quirks:
    """Standard deviations are of normal distributions; everything random comes from the twin's seed."""

    latency: float = 0.0
    """Every state arrives this late [s]."""
    jitter: float = 0.0
    """And up to this much later, uniformly [s]. Messages do not overtake each other."""
    loss: float = 0.0
    """Share of the states that never arrive, of 1."""
    command_latency: float = 0.0
    """Latency of every command [s]."""
    command_jitter: float = 0.0
    """[s]"""
    command_loss: float = 0.0
    """Share of the commands that never arrive, of 1."""
    command_timeout: float = 0.0
    """The motors damp when no command came for this long [s]; 0: the last command holds for ever. What the firmware of
    real robots does is not documented, so holding is the case to be safe in."""

    encoder_noise: float = 0.0
    """[rad]"""
    velocity_noise: float = 0.0
    """[rad/s]"""
    torque_noise: float = 0.0
    """Noise of the torque that drives report [N m]."""
    gyro_noise: float = 0.0
    """[rad/s]"""
    accelerometer_noise: float = 0.0
    """[m/s^2]"""
    orientation_noise: float = 0.0
    """Angle about each axis, anew in every state [rad]."""
    encoder_bias: float = 0.0
    """Spread of what each encoder is off by; the drive believes it too [rad]."""
    gyro_bias: float = 0.0
    """Spread of what each axis is off by [rad/s]."""
    imu_glitch_rate: float = 0.0
    """Single states whose IMU is wrong [1/s]."""
    imu_glitch: str = "jump"
    """Kind of glitch: "nan", "zero" (quaternion) or "jump" (of the orientation, by half a turn)."""
    scan_delay: float = 0.0
    """Age of the heights that a policy reads, in rehearsals; no wire carries them [s]. Typically 0.1 for depth cameras
    and a map."""
    scan_noise: float = 0.0
    """Noise of each of those heights, anew in every scan [m]. Typically 0.02."""

    latch_rate: float = 0.0
    """Rate at which each motor sticks to its present torque [1/s]."""
    latch_duration: float = 0.05
    """Duration of a sticking [s]."""
    dead_motor: str = ""
    """Joint whose motor gives no torque."""
    heating: float = 0.0
    """Warming of a motor at its effort limit [K/s]; it falls with the square of the torque."""
    lost_rate: float = 0.0
    """Rate at which each motor misses a frame on its own bus and counts it [1/s]."""
    battery: float = 0.9
    """State of charge at the start, of 1."""
    battery_drain: float = 0.0
    """[1/s]"""
    battery_sag: float = 0.0
    """Share of the torque that an empty battery costs, of 1; in proportion before."""

    motion_switcher: str = "normal"
    """Behaviour of the service that releases the robot's own controller: "slow" answers after 2 s, "absent" never,
    "nonsense" with what is no JSON, "stubborn" agrees and releases nothing."""
    own_writer: str = "leaves"
    """Behaviour of the robot's own controller when released: it "leaves" the topic of commands, or "stays", in silence.
    """
    mode_machine: int = 0
    """Model code that the robot reports, "unitree_hg" only; 0 for the first in its hardware definition."""
    parameters: RobotParameters | None = None
    """The dynamics that the robot hides: gains, strength, friction, armature, delay, base mass. Of a file with
    ``parameters=params.yaml``."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float | int) and not (math.isfinite(value) and value >= 0.0):
                raise QuirkError(f"quirk {field.name}={value}: expected a number that is not negative")
        for name in ("loss", "command_loss", "battery", "battery_sag"):
            if getattr(self, name) > 1.0:
                raise QuirkError(f"quirk {name}={getattr(self, name)}: is a share, at most 1")
        for name, known in (("imu_glitch", GLITCHES), ("motion_switcher", SWITCHERS), ("own_writer", WRITERS)):
            if getattr(self, name) not in known:
                raise QuirkError(f"quirk {name}={getattr(self, name)}: choose one of {', '.join(known)}")
        if self.parameters is not None and self.parameters.actuator_network is not None:
            raise QuirkError("quirk parameters: the twin's drives follow the motor law, not an actuator network")

    def check(self, robot: str, joint_names: Iterable[str]) -> None:
        """Raise unless what is said of joints is about joints of this robot."""
        names = tuple(joint_names)
        if self.dead_motor and self.dead_motor not in names:
            raise QuirkError(f"quirk dead_motor={self.dead_motor}: {robot} has {', '.join(names)}")
        if self.parameters is not None:
            if self.parameters.robot != robot:
                raise QuirkError(f"quirk parameters: they are of {self.parameters.robot}, and the twin is {robot}")
            if unknown := [name for name in self.parameters.joints if name not in names]:
                raise QuirkError(f"quirk parameters: {robot} has no driven joint {', '.join(unknown)}")


SENSORS = Quirks(
    encoder_noise=0.0005, velocity_noise=0.05, torque_noise=0.2,
    gyro_noise=0.02, accelerometer_noise=0.2, orientation_noise=0.0005, scan_delay=0.1, scan_noise=0.02,
)  # fmt: skip
"""Sensors that work: without noise, one that hangs could not be told from one that has nothing to say. Heights are as
late and noisy as those of depth cameras and a map."""


def read_quirks(settings: Iterable[str]) -> Quirks:
    """Quirks from words: "name=value", or the name of a YAML file of them. Later words win."""
    values: dict[str, Any] = {}
    for word in settings:
        name, equals, text = word.partition("=")
        if equals:
            values[name.strip()] = text.strip()
        else:
            values |= _read_file(Path(word))
    return quirks_from(values)


def quirks_from(values: Mapping[str, Any]) -> Quirks:
    """Quirks from plain values; numbers may be given as text."""
    fields = {field.name: field for field in dataclasses.fields(Quirks)}
    known: dict[str, Any] = {}
    for name, value in values.items():
        if name not in fields:
            raise QuirkError(f"there is no quirk {name!r}; there are {', '.join(fields)}")
        if name == "parameters":
            known[name] = value if isinstance(value, RobotParameters) else load_parameters(value)
        elif isinstance(fields[name].default, str):
            known[name] = str(value)
        else:
            known[name] = _number(name, value, type(fields[name].default))
    return Quirks(**known)


def _number(name: str, value: Any, kind: type) -> float:
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise QuirkError(f"quirk {name}={value}: expected a number") from None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = read_yaml(path)
    except FileError as error:
        raise QuirkError(f"quirks are name=value or a YAML file, and {error}") from None
    if not isinstance(data, dict):
        raise QuirkError(f"{path}: expected lines of 'name: value'")
    if isinstance(data.get("parameters"), str):
        data["parameters"] = str(path.parent / data["parameters"])
    return data
