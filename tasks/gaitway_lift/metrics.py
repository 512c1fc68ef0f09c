"""Metrics of lifting. Pure numpy; an object is judged by the place of its middle."""

from __future__ import annotations

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.rotation import quat_apply_inverse
from gaitway_sim2real.trial.metric import Metric, per_robot
from gaitway_sim2real.trial.simulate import Trajectory

BASE, OBJECT = "panda_link0", "object"
BODIES = (BASE, OBJECT)
"""Bodies that are recorded."""
SECONDS, TIME = 8.0, 6.0
"""Length of a run, and the time in which an object is to be at its goal [s]; the goal ramps for at most 1 s."""
NEAR = 0.05
"""Distance from its goal at which an object counts as there [m]."""
UP, DROPPED = 0.1, 0.05
"""Height from which an object can be dropped, and below which it was [m]."""


def place(rec: Trajectory) -> np.ndarray:
    """Middle of the object in the base's frame [m], (T, N, 3)."""
    return quat_apply_inverse(_float(rec.base_quat), _float(rec.bodies[OBJECT]) - _float(rec.bodies[BASE]))


def goal_distance(rec: Trajectory) -> np.ndarray:
    """Distance of the object from its goal [m], (T, N)."""
    return np.linalg.norm(place(rec) - rec.command[..., :3], axis=-1)


def _at_end(rec: Trajectory) -> np.ndarray:
    """Control steps in which the object must be there, (T, N)."""
    time = (np.arange(len(rec.alive)) + 1) * rec.control_dt
    return rec.alive & (time > TIME)[:, None]


def success(rec: Trajectory, contract: Contract) -> np.ndarray:
    """1 for a robot whose object was at its goal from :data:`TIME` on, until the end, (N,)."""
    judged = _at_end(rec)
    return np.where((~judged | (goal_distance(rec) <= NEAR)).all(0) & judged.any(0) & rec.alive[-1], 1.0, 0.0)


def goal_time(rec: Trajectory, contract: Contract) -> np.ndarray:
    """Time of the last control step in which the object was not at its goal [s], (N,)."""
    time = (np.arange(len(rec.alive)) + 1) * rec.control_dt
    return np.asarray((time[:, None] * (rec.alive & (goal_distance(rec) > NEAR))).max(0))


def steady_distance(rec: Trajectory, contract: Contract) -> np.ndarray:
    """Mean distance of the object from its goal, from :data:`TIME` on [m], (N,)."""
    return per_robot(goal_distance(rec), _at_end(rec))


def drops(rec: Trajectory, contract: Contract) -> np.ndarray:
    """1 for a robot whose object was above :data:`UP`, and later below :data:`DROPPED`, (N,)."""
    height = place(rec)[..., 2]
    lifted = np.maximum.accumulate(height > UP, axis=0)
    return np.where((rec.alive & lifted & (height < DROPPED)).any(0), 1.0, 0.0)


def rest_speed(rec: Trajectory, contract: Contract) -> np.ndarray:
    """RMS speed of the joints that move by angles, from :data:`TIME` on [rad/s], (N,)."""
    arm = [joint for joint, name in enumerate(contract.joint_names) if "finger" not in name]
    return np.sqrt(per_robot(np.mean(_float(rec.joint_vel[..., arm]) ** 2, axis=-1), _at_end(rec)))


def _float(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, float)


METRICS = (
    Metric(
        "success",
        "Objects at their goals",
        about=f"Share of robots whose object was within {100 * NEAR:g} cm of its goal from {TIME:g} s on, until the "
        f"end at {SECONDS:g} s.",
        percent=True,
        measure=success,
        kind="share",
    ),
    Metric(
        "goal_time",
        "Time to the goal",
        "s",
        f"Time until the object is within {100 * NEAR:g} cm of its goal and stays there.",
        measure=goal_time,
    ),
    Metric(
        "steady_distance",
        "Object off its goal",
        "m",
        f"Mean distance of the object from its goal, from {TIME:g} s on.",
        measure=steady_distance,
    ),
    Metric(
        "drops",
        "Drops",
        about=f"Share of robots whose object was above {UP:g} m, and later below {DROPPED:g} m.",
        percent=True,
        measure=drops,
        kind="share",
    ),
    Metric(
        "rest_speed",
        "Joint speed at rest",
        "rad/s",
        f"RMS speed of the arm's joints from {TIME:g} s on: an arm that trembles is not at rest.",
        measure=rest_speed,
    ),
)
