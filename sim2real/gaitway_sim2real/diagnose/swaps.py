"""One group of parameters of the twin, swapped for what a flight seems to have had."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from gaitway_onboard.flight.reading import Flight
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters

from ..digital_twin.faults import Fault
from ..digital_twin.sensors import Reading, rotated
from ..digital_twin.twin import Twin
from .loads import turn

Alter = Callable[[Twin, float], None]
"""Changes a twin that has not moved yet, whose policy will take over at a time [s]."""


@dataclass(frozen=True, kw_only=True)
class Swap:
    quirks: Mapping[str, Any] = field(default_factory=dict)
    """Fields of :class:`Quirks`."""
    alter: Alter = lambda twin, takes_over: None


def parameters(flight: Flight, joint: str = "", base_mass: float | None = None, **values: float) -> Swap:
    """``values`` are fields of :class:`JointParameters`, of ``joint`` or of all joints."""
    names = ((joint,) if joint else flight.joint_names) if values else ()
    joints = {name: JointParameters(**values) for name in names}
    return Swap(quirks={"parameters": RobotParameters(robot=flight.robot, joints=joints, base_mass=base_mass)})


def fault(kind: Fault, joint: str, after: float | None) -> Swap:
    """A fault that starts ``after`` [s] of policy; from the start if the flight had none."""

    def alter(twin: Twin, takes_over: float) -> None:
        twin.inject(kind, after=0.0 if after is None else max(0.0, takes_over + after), joint=joint)

    return Swap(alter=alter)


def ground_friction(friction: float) -> Swap:
    def alter(twin: Twin, takes_over: float) -> None:
        twin.body.model.geom_friction[:, 0] = friction

    return Swap(alter=alter)


def encoder_offset(joint: str, offset: float) -> Swap:
    def alter(twin: Twin, takes_over: float) -> None:
        twin.drives.encoder_bias[twin.joint_names.index(joint)] += offset

    return Swap(alter=alter)


def clock_rate(rate: float) -> Swap:
    def alter(twin: Twin, takes_over: float) -> None:
        start = twin.time
        twin.faults.clock = lambda now: start + rate * (now - start)  # type: ignore[method-assign]

    return Swap(alter=alter)


def imu_mounting(roll: float, pitch: float) -> Swap:
    def change(found: Reading) -> None:
        for axis, angle in enumerate((roll, pitch)):
            found.quat_wxyz = rotated(found.quat_wxyz, angle * np.eye(3)[axis])
            found.gyro, found.accelerometer = turn(np.stack([found.gyro, found.accelerometer]), axis, -angle)

    return _sensed(change)


def gyro_bias(bias: np.ndarray) -> Swap:
    def change(found: Reading) -> None:
        found.gyro = found.gyro + bias

    return _sensed(change)


def _sensed(change: Callable[[Reading], None]) -> Swap:
    """Every reading is changed before it is sent."""

    def alter(twin: Twin, takes_over: float) -> None:
        read = twin.sensors.read

        def changed(tick: int, dt: float) -> Reading:
            change(found := read(tick, dt))
            return found

        twin.sensors.read = changed  # type: ignore[method-assign]

    return Swap(alter=alter)


def joint_order(source: Mapping[str, str], after: float | None) -> Swap:
    """Joints get the targets of others, ``after`` [s] of policy."""

    def alter(twin: Twin, takes_over: float) -> None:
        decode, names = twin.side.decode, twin.joint_names
        order = [names.index(source.get(name, name)) for name in names]

        def changed(payload: bytes) -> Any:
            command = decode(payload)
            early = after is not None and twin.time < takes_over + after
            return command if command is None or early else replace(command, q=command.q[order])

        twin.side.decode = changed  # type: ignore[method-assign]

    return Swap(alter=alter)
