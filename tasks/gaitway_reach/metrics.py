"""Metrics of reaching. Pure numpy; a pose counts from the moment the operator gives it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.rotation import quat_apply, quat_apply_inverse, quat_from_rpy, quat_mul
from gaitway_sim2real.trial.metric import Metric, per_robot
from gaitway_sim2real.trial.simulate import Trajectory

BASE, HAND, FINGERS = "panda_link0", "panda_hand", ("panda_leftfinger", "panda_rightfinger")
BODIES = (BASE, HAND, *FINGERS)
"""Bodies that are recorded: the fingers show how the hand is turned."""
PERIOD = 5.0
"""Time for which a pose is held [s]."""
TIME = 4.0
"""Time in which a pose is to be reached [s]; the ramp of an exported policy's command is at most 3.6 s long."""
NEAR, TURNED = 0.02, 0.2
"""Distance [m] and angle [rad] at which a pose counts as reached: half the opening of the hand each side of an object
of 4 cm, and what turns its fingertips by less than a centimetre."""


def position_error(rec: Trajectory) -> np.ndarray:
    """Distance of the hand from its place [m], (T, N)."""
    place = quat_apply_inverse(_float(rec.base_quat), _float(rec.bodies[HAND]) - _float(rec.bodies[BASE]))
    return np.linalg.norm(place - rec.command[..., :3], axis=-1)


def orientation_error(rec: Trajectory) -> np.ndarray:
    """Angle between the hand and the orientation that it is told [rad], (T, N)."""
    left, right = (_float(rec.bodies[name]) - _float(rec.bodies[HAND]) for name in FINGERS)
    ahead, across = _unit(left + right), _unit(left - right)  # z and y of the hand's frame
    told = quat_mul(_float(rec.base_quat), quat_from_rpy(_float(rec.command[..., 3:])))
    x, y, z = (quat_apply(told, np.broadcast_to(axis, ahead.shape)) for axis in np.eye(3))
    trace = sum((a * b).sum(-1) for a, b in ((x, np.cross(across, ahead)), (y, across), (z, ahead)))
    return np.arccos(np.clip((trace - 1.0) / 2.0, -1.0, 1.0))


def since_told(rec: Trajectory) -> np.ndarray:
    """Time at the end of each control step since the pose was given [s], (T, N)."""
    changed = np.ones(rec.alive.shape, bool)
    changed[1:] = (np.diff(rec.command, axis=0) != 0).any(-1)
    step = np.arange(len(changed))[:, None]
    return (step + 1 - np.maximum.accumulate(np.where(changed, step, 0), axis=0)) * rec.control_dt


def there(rec: Trajectory) -> np.ndarray:
    """True where the hand is at its pose, (T, N)."""
    return (position_error(rec) <= NEAR) & (orientation_error(rec) <= TURNED)


def _at_end(rec: Trajectory) -> np.ndarray:
    """Control steps in which the hand must be there, (T, N)."""
    return rec.alive & (since_told(rec) > TIME)


def reached(rec: Trajectory, contract: Contract) -> np.ndarray:
    """1 for a robot that was at each of its poses from :data:`TIME` on, (N,)."""
    return np.where((~_at_end(rec) | there(rec)).all(0) & _at_end(rec).any(0), 1.0, 0.0)


def reach_time(rec: Trajectory, contract: Contract) -> np.ndarray:
    """Mean time from a pose to the last control step in which the hand was not there [s], (N,)."""
    since, away = since_told(rec), ~there(rec)
    longest, running = np.zeros(since.shape), np.zeros(since.shape[1])
    for step in range(len(since)):
        begins = since[step] < 1.5 * rec.control_dt
        running = np.where(away[step], since[step], np.where(begins, 0.0, running))
        longest[step] = running
    ends = np.vstack([since[1:] < since[:-1], np.ones((1, since.shape[1]), bool)])  # the last step of each pose
    return per_robot(longest, ends & rec.alive)


def steady(error: Callable[[Trajectory], np.ndarray]) -> Callable[[Trajectory, Contract], np.ndarray]:
    """Mean of an error (T, N) from :data:`TIME` on, (N,)."""
    return lambda rec, contract: per_robot(error(rec), _at_end(rec))


def rest_speed(rec: Trajectory, contract: Contract) -> np.ndarray:
    """RMS speed of the joints that move by angles, from :data:`TIME` on [rad/s], (N,)."""
    arm = [joint for joint, name in enumerate(contract.joint_names) if "finger" not in name]
    return np.sqrt(per_robot(np.mean(_float(rec.joint_vel[..., arm]) ** 2, axis=-1), _at_end(rec)))


def torque_change(rec: Trajectory, contract: Contract) -> np.ndarray:
    """RMS change of the joints' torques in a control step, from :data:`TIME` on [N m], (N,)."""
    change = np.zeros(rec.torque.shape)
    change[1:] = np.diff(_float(rec.torque), axis=0)
    return np.sqrt(per_robot(np.mean(change**2, axis=-1), _at_end(rec)))


def _float(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, float)


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.maximum(np.linalg.norm(vector, axis=-1, keepdims=True), 1e-9)


METRICS = (
    Metric(
        "reached",
        "Poses reached",
        about=f"Share of robots whose hand was within {100 * NEAR:g} cm and {TURNED:g} rad of each pose, from "
        f"{TIME:g} s after it was told until the next one.",
        percent=True,
        measure=reached,
        kind="share",
    ),
    Metric(
        "reach_time",
        "Time to a pose",
        "s",
        "Mean time until the hand is at its pose and stays there; poses are told 5 s apart.",
        measure=reach_time,
    ),
    Metric(
        "steady_position",
        "Hand off place",
        "m",
        f"Mean distance of the hand from its place, from {TIME:g} s on.",
        measure=steady(position_error),
    ),
    Metric(
        "steady_orientation",
        "Hand turned off",
        "rad",
        f"Mean angle between the hand and its pose, from {TIME:g} s on.",
        measure=steady(orientation_error),
    ),
    Metric(
        "rest_speed",
        "Joint speed at rest",
        "rad/s",
        f"RMS speed of the arm's joints from {TIME:g} s on: an arm that trembles is not at rest.",
        measure=rest_speed,
    ),
    Metric(
        "torque_change",
        "Torque change at rest",
        "N m",
        f"RMS change of torque from one control step to the next, from {TIME:g} s on.",
        measure=torque_change,
    ),
)
