"""One group of parameters of the twin, swapped for what a flight seems to have had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters

from ..digital_twin.faults import Fault
from ..digital_twin.quirks import Quirks
from ..digital_twin.sensors import Reading, rotated
from ..digital_twin.twin import Twin
from .loads import turn

Alter = Callable[[Twin], None]


@dataclass(frozen=True, kw_only=True)
class Swap:
    """A change of the twin. ``parameters`` are fields of :class:`JointParameters`, of ``joint`` or of all."""

    quirks: dict[str, float] | None = None
    parameters: dict[str, float] | None = None
    joint: str = ""
    base_mass: float | None = None
    alter: Alter | None = None
    fault: tuple[Fault, str] | None = None
    after: float | None = None
    """Start of ``fault``, in seconds after the policy took over."""

    def quirked(self, quirks: Quirks, robot: str, joint_names: tuple[str, ...]) -> Quirks:
        if self.parameters or self.base_mass is not None:
            names = (self.joint,) if self.joint else joint_names
            joints = {name: JointParameters(**self.parameters) for name in names} if self.parameters else {}
            quirks = replace(quirks, parameters=RobotParameters(robot=robot, joints=joints, base_mass=self.base_mass))
        changes: dict[str, Any] = dict(self.quirks or {})
        return replace(quirks, **changes)

    def apply(self, twin: Twin, takes_over: float) -> None:
        """Change a twin that has not moved yet, whose policy will take over at ``takes_over`` [s]."""
        if self.alter is not None:
            self.alter(twin)
        if self.fault is not None:
            fault, joint = self.fault
            begin = 0.0 if self.after is None else max(0.0, takes_over + self.after)
            twin.inject(fault, after=begin, joint=joint)


def ground_friction(friction: float) -> Alter:
    def alter(twin: Twin) -> None:
        twin.body.model.geom_friction[:, 0] = friction

    return alter


def encoder_offset(joint: str, offset: float) -> Alter:
    def alter(twin: Twin) -> None:
        twin.drives.encoder_bias[twin.joint_names.index(joint)] += offset

    return alter


def sensed(change: Callable[[Reading], None]) -> Alter:
    """Change every reading before it is sent."""

    def alter(twin: Twin) -> None:
        read = twin.sensors.read

        def changed(tick: int, dt: float) -> Reading:
            change(found := read(tick, dt))
            return found

        twin.sensors.read = changed  # type: ignore[method-assign]

    return alter


def imu_mounting(roll: float, pitch: float) -> Alter:
    def change(found: Reading) -> None:
        for axis, angle in enumerate((roll, pitch)):
            found.quat_wxyz = rotated(found.quat_wxyz, angle * np.eye(3)[axis])
            found.gyro, found.accelerometer = turn(np.stack([found.gyro, found.accelerometer]), axis, -angle)

    return sensed(change)


def gyro_bias(bias: np.ndarray) -> Alter:
    def change(found: Reading) -> None:
        found.gyro = found.gyro + bias

    return sensed(change)


def clock_rate(rate: float) -> Alter:
    def alter(twin: Twin) -> None:
        start = twin.time
        twin.faults.clock = lambda now: start + rate * (now - start)  # type: ignore[method-assign]

    return alter


def joint_order(source: dict[str, str], start: float) -> Alter:
    """Joints get the targets of others from ``start`` [s] on."""

    def alter(twin: Twin) -> None:
        decode, names = twin.side.decode, twin.joint_names
        order = np.array([names.index(source.get(name, name)) for name in names])

        def changed(payload: bytes) -> Any:
            command = decode(payload)
            return command if command is None or twin.time < start else replace(command, q=command.q[order])

        twin.side.decode = changed  # type: ignore[method-assign]

    return alter
