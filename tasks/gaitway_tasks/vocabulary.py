"""Vocabulary of observations: the signals of a robot, and the terms that a policy reads. One row each.

Mirrors, units, the import from Isaac Lab, IO descriptors and ``gaitway diagnose`` use these tables.
A new term is a function in :mod:`gaitway_tasks.mdp.observations` and a row here.
"""

from __future__ import annotations

from typing import NamedTuple

MIRROR_KINDS = ("vector", "axial", "planar_twist", "joints", "scalar", "clock", "scan", "places")
"""Polar vector, axial vector (angular velocity), (vx, vy, yaw rate), one value per joint, unchanged by mirrors, sine
and cosine of a gait's phase, which every mirror shifts by half a cycle, a height scan, and places of the bodies that
the term's ``bodies`` names, in the base frame."""


class Signal(NamedTuple):
    """A signal of the world that terms read."""

    type: str
    """``observation_type`` of Isaac Lab's IO descriptors."""
    unit: str
    measured: bool = False
    """True if it is measured (joint encoders, IMU), False if it is known (the operator's command, the policy's last
    action)."""
    input: str | None = None
    """Name of the bundle input for this signal."""


SIGNALS = {
    "joint_pos": Signal("JointState", "rad", True, "joint_pos"),
    "joint_vel": Signal("JointState", "rad/s", True, "joint_vel"),
    "imu_quat_wxyz": Signal("RootState", "1", True, "imu_quat_wxyz"),
    "gyro": Signal("RootState", "rad/s", True, "gyro"),
    "command": Signal("Command", "m/s, m/s, rad/s", True, "command"),
    "action": Signal("Action", "1", True),
    "clock": Signal("Clock", "1", True),
    "root_lin_vel_b": Signal("RootState", "m/s", False, "base_lin_vel"),
    "height_scan": Signal("Sensor", "m", False, "height_scan"),
    "object_pos": Signal("Object", "m", False, "object_pos"),
    "root_pos_w": Signal("RootState", "m"),
    "contact_force_w": Signal("Sensor", "N"),
    "body_pos_w": Signal("BodyState", "m"),
    "body_quat_wxyz": Signal("BodyState", "1"),
    "body_lin_vel_w": Signal("BodyState", "m/s"),
    "body_ang_vel_w": Signal("BodyState", "rad/s"),
}
INPUTS = {signal.input: signal for signal in SIGNALS.values() if signal.input}
"""Signals by bundle input."""


class Observation(NamedTuple):
    """A term of :mod:`gaitway_tasks.mdp.observations`."""

    signal: str
    mirror: str | None = None
    """One of :data:`MIRROR_KINDS`; None if symmetry cannot be used with it."""
    isaaclab: tuple[str, ...] = ()
    """Isaac Lab's functions that compute the same. The one of the same name is put into IO descriptors."""
    unit: str | None = None
    """Unit that Isaac Lab 2.3.2 gives for this function."""
    inverse: str | None = None
    """Way to compute the signal from the term: "same", "plus default pose", "plus offset", "gravity", "last action" or
    "clock"; None if it cannot be computed."""


OBSERVATIONS = {
    "base_lin_vel": Observation("root_lin_vel_b", "vector", ("base_lin_vel",), "m/s", "same"),
    "base_ang_vel": Observation("gyro", "axial", ("base_ang_vel",), "rad/s", "same"),
    "projected_gravity": Observation("imu_quat_wxyz", "vector", ("projected_gravity",), "m/s^2", "gravity"),
    "generated_commands": Observation("command", "planar_twist", ("generated_commands",), None, "same"),
    "joint_pos": Observation("joint_pos", "joints", ("joint_pos",), "rad", "same"),
    "joint_pos_rel": Observation("joint_pos", "joints", ("joint_pos_rel",), "rad", "plus default pose"),
    "joint_vel_rel": Observation("joint_vel", "joints", ("joint_vel_rel", "joint_vel"), "rad/s", "same"),
    "gait_phase": Observation("clock", "clock", inverse="clock"),
    "last_action": Observation("action", "joints", ("last_action",), None, "last action"),
    "height_scan": Observation("height_scan", "scan", ("height_scan",), "m", "plus offset"),
    "base_pos_z": Observation("root_pos_w", "scalar", ("base_pos_z",), "m"),
    "feet_contact": Observation("contact_force_w"),
}
"""Terms by name. If one signal has several terms, the last is the usual one. Default joint velocities are zero."""
BY_ISAACLAB = {function: name for name, term in OBSERVATIONS.items() for function in term.isaaclab}
"""Gaitway's term by Isaac Lab's function."""
