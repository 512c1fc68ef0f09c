"""Parts of a contract: names of the graph's inputs and outputs, and the groups of its keys."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

MEASURED = ("joint_pos", "joint_vel", "imu_quat_wxyz", "gyro", "command")
IMU = ("imu_quat_wxyz", "gyro")
"""Those of :data:`MEASURED` that a robot with a fixed base does not have."""
VELOCITY, NUMBERS = "velocity", "numbers"
"""Operators: who gives the command. A velocity is steered, other numbers are set."""
TWIST = {"lin_vel_x": "m/s", "lin_vel_y": "m/s", "ang_vel_z": "rad/s"}
"""Numbers of a velocity command, and their units."""
ESTIMATED = ("base_lin_vel", "height_scan", "object_pos")
"""Inputs that no sensor gives: a graph has those of them that its policy reads, between MEASURED and ``state``."""
OUTPUTS = ("joint_pos_target", "action", "next_state")
ESTIMATE = "estimated_"
"""Begins the name of an output that the policy estimates for itself, and that nothing on the robot needs."""
OWN_VELOCITY = f"{ESTIMATE}base_lin_vel"


@dataclass(frozen=True, kw_only=True)
class Actuator:
    """PD gains and the torque clip of a group of joints: ``dc_motor`` (torque-speed line) or ``implicit_pd``."""

    joints: tuple[str, ...]
    law: str
    stiffness: float
    """[N m/rad]"""
    damping: float
    """[N m s/rad]"""
    effort_limit: float
    """[N m]"""
    saturation_effort: float | None = None
    """Stall torque [N m], ``dc_motor`` only."""
    velocity_limit: float | None = None
    """No-load speed [rad/s], ``dc_motor`` only."""
    armature: float | None = None
    """Inertia that the drive added to its joint in training [kg m^2]; without it, what robot.xml says."""


@dataclass(frozen=True, kw_only=True)
class Action:
    """``joint_pos_target = clamp(offset + scale * clamp(action, +-raw_clip), clip)``.

    The graph does it, this is for the reader. One value per joint.
    """

    kind: str
    scale: tuple[float, ...]
    offset: tuple[float, ...]
    clip: tuple[tuple[float, float], ...] | None = None
    """[rad]"""
    raw_clip: float | None = None


@dataclass(frozen=True, kw_only=True)
class HeightScan:
    """Points of the ``height_scan`` input: a yaw-aligned grid under the base, x fastest, from -size/2 to size/2 [m]."""

    resolution: float
    size: tuple[float, float]

    def points(self) -> tuple[tuple[float, float], ...]:
        """Position of each point in the base's yaw frame [m], (P, 2)."""
        xs, ys = ([-length / 2 + k * self.resolution for k in range(self._count(length))] for length in self.size)
        return tuple((x, y) for y in ys for x in xs)

    @property
    def num_points(self) -> int:
        """Number of points P."""
        return math.prod(self._count(length) for length in self.size)

    def _count(self, length: float) -> int:
        return int(length / self.resolution + 1e-6) + 1


@dataclass(frozen=True, kw_only=True)
class RigidObject:
    """A cuboid beside the robot in training, whose place the policy reads as ``object_pos``."""

    size: tuple[float, float, float]
    """Edge lengths [m]."""
    mass: float
    """[kg]"""
    friction: float
    """Sliding friction of all its contacts."""
    pos: tuple[float, float, float]
    """Place of its middle at the start [m]; the robot's base is above the origin."""
    spread: tuple[tuple[float, float], ...]
    """Range of what is added to ``pos`` at the start of an episode [m], (3, 2)."""


@dataclass(frozen=True, kw_only=True)
class CommandCalibration:
    """Corrections measured in simulation, with which the robot does what it is told.

    With u the command as shares of ``ends``, the policy sees u + clamp(``factors`` f(u), +-0.25), at most ``most``. The
    features f are ``gaitway_sim2real.bundle.calibration.features``. The graph does it, this is for the reader.
    """

    ends: tuple[float, float, float]
    most: float
    factors: tuple[tuple[float, ...], ...]
    """(3, 51)"""


@dataclass(frozen=True, kw_only=True)
class Signal:
    """One input or output of the graph, float32; the first dimension is the batch, ``N``."""

    name: str
    shape: tuple[str | int, ...]
    unit: str


@dataclass(frozen=True, kw_only=True)
class TermLayout:
    """One term of the actor's observation, in order: ``history`` frames of ``dim`` numbers, oldest first."""

    term: str
    dim: int
    history: int
    scale: float | tuple[float, ...]
    clip: tuple[float, float] | None
    signals: tuple[str, ...]


def frozen(value: Any) -> Any:
    """``value`` of YAML with tuples for its lists."""
    if isinstance(value, list):
        return tuple(frozen(item) for item in value)
    if isinstance(value, dict):
        return {key: frozen(item) for key, item in value.items()}
    return value


_PARTS: dict[str, Any] = {
    "actuators": Actuator, "action": Action, "height_scan": HeightScan, "inputs": Signal, "outputs": Signal,
    "observation": TermLayout, "command_calibration": CommandCalibration,
}  # fmt: skip
"""Keys whose mappings, alone or in a list, become dataclasses."""


def built(key: str, value: Any) -> Any:
    """What a :class:`.contract.Contract` has for the ``value`` of a ``key`` of the file."""
    if key == "objects":
        return {name: RigidObject(**frozen(each)) for name, each in value.items()}
    if (kind := _PARTS.get(key)) is None:
        return frozen(value)
    if isinstance(value, list):
        return tuple(kind(**frozen(row)) for row in value)
    return kind(**frozen(value))
