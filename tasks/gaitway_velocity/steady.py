"""Metrics of a held command: bias of the mean, sway about it, and straightness.

A trot sways with every stride, and the stride's mean follows the command all the same; a biased robot misses the door.
The first 2 s are left out, in which robots come up to speed, and so is all after a fall. Means are tapered with a Hann
window: the parts of strides at both ends hardly count, so that no stride needs to be found.
"""

from __future__ import annotations

import numpy as np
from gaitway_onboard.rotation import quat_apply
from gaitway_sim2real.trial.simulate import Trajectory

from .gait import RAMP, SHORTEST_RECORD

SLOWEST = 0.2  # [m/s], a straight command that is slower than this has no direction worth keeping


def steady_metrics(rec: Trajectory) -> dict[str, np.ndarray]:
    """Bias, oscillation and straightness of each robot, (N,) each, named as in :data:`.metrics.METRICS`.

    NaN for a robot whose command changes; straightness also for one that is told to turn or to stand.
    """
    after = np.arange(len(rec.alive))[:, None] >= round(RAMP / rec.control_dt)
    measured = rec.alive & after  # (T, N)
    weights = hann(measured)
    lin_vel, yaw_vel = rec.lin_vel[..., :2].astype(float), rec.ang_vel[..., 2].astype(float)
    mean, turning = tapered(lin_vel, weights), tapered(yaw_vel, weights)
    command = rec.command[0]
    constant = (rec.command == command).all((0, 2)) & (measured.sum(0) * rec.control_dt >= SHORTEST_RECORD)
    speed = np.linalg.norm(command[:, :2], axis=1)
    straight = constant & (command[:, 2] == 0) & (speed >= SLOWEST)
    ahead = command[:, :2] / np.maximum(speed, SLOWEST)[:, None]
    along = (mean * ahead).sum(1)
    across = ahead[:, 0] * mean[:, 1] - ahead[:, 1] * mean[:, 0]
    metres = np.maximum(along, speed / 2)  # a robot that hardly moves is measured by half of what it was told
    return {
        name: np.where(known, values, np.nan)
        for name, known, values in (
            ("lin_vel_bias", constant, np.linalg.norm(mean - command[:, :2], axis=1)),
            ("yaw_vel_bias", constant, np.abs(turning - command[:, 2])),
            ("lin_vel_oscillation", constant, tapered(np.linalg.norm(lin_vel - mean, axis=-1), weights)),
            ("yaw_vel_oscillation", constant, tapered(np.abs(yaw_vel - turning), weights)),
            ("heading_drift", straight, np.abs(tapered(heading_rate(rec), weights))),
            ("sideways_drift", straight, np.abs(across) / np.maximum(metres, SLOWEST / 2)),
        )
    }


def hann(measured: np.ndarray) -> np.ndarray:
    """A Hann window over the True rows of each column of ``measured`` (T, N), which follow each other; sums are 1."""
    count = measured.sum(0)
    place = np.cumsum(measured, 0) - 0.5
    weights = np.where(measured, np.sin(np.pi * place / np.maximum(count, 1)) ** 2, 0.0)
    return weights / np.maximum(weights.sum(0), 1e-12)


def tapered(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean of ``values`` (T, N, ...) over time with ``weights`` (T, N), (N, ...)."""
    return np.einsum("tn...,tn->n...", values, weights)


def heading_rate(rec: Trajectory) -> np.ndarray:
    """Rate of the direction in the ground plane that the base faces [rad/s], (T, N): a gyro also sees it sway."""
    face = quat_apply(rec.base_quat.astype(float), np.array([1.0, 0.0, 0.0]))
    heading = np.unwrap(np.arctan2(face[..., 1], face[..., 0]), axis=0)
    return np.diff(heading, axis=0, prepend=heading[:1]) / rec.control_dt
