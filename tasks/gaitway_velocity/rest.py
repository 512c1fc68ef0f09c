"""Metrics of standing and stopping.

It is **at rest** from 2 s after its command became zero, or it was put down, or pushed, until the next of these or a
fall. A robot **stops** where its command becomes zero and stays so, and has come to rest when speed and yaw rate stay
below 0.1 m/s and 0.1 rad/s from then on.
"""

from __future__ import annotations

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.trial.simulate import Trajectory

SETTLED = 2.0  # [s]
STILL_SPEED, STILL_YAW_RATE = 0.1, 0.1  # [m/s], [rad/s]


def at_rest(rec: Trajectory) -> np.ndarray:
    """Control steps at which a robot is to be at rest, (T, N) bool."""
    settled = round(SETTLED / rec.control_dt)
    step = np.arange(len(rec.alive))[:, None]
    disturbed = rec.command.any(-1) | (rec.push != 0).any(-1)
    last = np.maximum.accumulate(np.where(disturbed, step, 0), axis=0)
    return rec.alive & ~disturbed & (step - last >= settled)


def rest_metrics(rec: Trajectory, contract: Contract) -> dict[str, np.ndarray]:
    """Standing, of each robot, (N,) each, named as in :data:`.metrics.METRICS`; NaN for one that was never at rest.

    ``steps_at_rest`` is 1 for a robot of which a foot is off the ground at any control step.
    """
    rest = at_rest(rec)
    both = rest.copy()
    both[0] = False
    both[1:] &= rest[:-1]
    lifted = ~rec.foot_contact.all(-1) & rest
    change = np.diff(rec.torque.astype(float), axis=0, prepend=0.0) / rec.control_dt
    change /= np.array(contract.per_joint("effort_limit"))
    return {
        "steps_at_rest": np.where(rest.any(0), lifted.any(0), np.nan),
        "rest_speed": rms((rec.lin_vel.astype(float) ** 2).sum(-1), rest),
        "rest_yaw_rate": rms(rec.ang_vel[..., 2].astype(float) ** 2, rest),
        "rest_joint_speed": rms((rec.joint_vel.astype(float) ** 2).mean(-1), rest),
        "rest_torque_change": rms((change**2).mean(-1), both),
        "hand_drift": hand_drifts(rec, rest),
    }


def hand_drifts(rec: Trajectory, rest: np.ndarray) -> np.ndarray:
    """Root mean square distance of the hands from where they are on average at rest [m], (N,); NaN without hands."""
    if rec.hands is None or not rec.hands.shape[2]:
        return np.full(rec.alive.shape[1], np.nan)
    hands, when = rec.hands.astype(float), rest[..., None, None]
    mean = (hands * when).sum(0) / np.maximum(when.sum(0), 1)
    return rms(((hands - mean) ** 2).sum(-1).mean(-1), rest)


def rms(squares: np.ndarray, when: np.ndarray) -> np.ndarray:
    """Root of the mean of ``squares`` (T, N) over the times ``when`` (T, N), (N,); NaN where there is none."""
    count = when.sum(0)
    return np.where(count > 0, np.sqrt((squares * when).sum(0) / np.maximum(count, 1)), np.nan)


def stop_metrics(rec: Trajectory) -> dict[str, np.ndarray]:
    """Time [s] and way [m] from the last stop of each robot to rest, (N,) each; NaN where there is none.

    The way is the greatest distance from where it was. A robot that does not come to rest, or falls, took all the time
    that there was.
    """
    steps, robots = rec.alive.shape
    moving = np.asarray(rec.command.any(-1))
    start = steps - moving[::-1].argmax(0)  # first row after the last command that was not zero
    seen = rec.alive[np.clip(start, 0, steps - 1), np.arange(robots)]
    pushed = ((rec.push != 0).any(-1) & (np.arange(steps)[:, None] >= start)).any(0)
    stops = moving.any(0) & (start < steps) & seen & ~pushed
    after = np.arange(steps)[:, None] >= start
    slow = np.linalg.norm(rec.lin_vel[..., :2], axis=-1) < STILL_SPEED
    slow &= np.abs(rec.ang_vel[..., 2]) < STILL_YAW_RATE
    restless = np.asarray(~(slow & rec.alive) & after)
    last = steps - restless[::-1].argmax(0)  # first row from which it is at rest
    time = np.where(restless.any(0), last - start, 0) * rec.control_dt
    origin = rec.base_pos[np.clip(start - 1, 0, steps - 1), np.arange(robots)]
    way = np.linalg.norm((rec.base_pos - origin)[..., :2], axis=-1) * (after & rec.alive)
    return {"stop_time": np.where(stops, time, np.nan), "stop_way": np.where(stops, way.max(0), np.nan)}
