"""The little that is kept of the recordings for the report's plots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .metrics import lin_vel_errors, yaw_vel_errors
from .scenario import Scenario
from .showcase import Showcase
from .simulate import Trajectory

SCATTER_POINTS = 2500


@dataclass
class Evidence:
    """Data for the plots; None for parts that were not run."""

    grid_command: np.ndarray | None = None  # (N, 3), those of :func:`.commands.command_grid`
    grid_lin_error: np.ndarray | None = None  # (N,) [m/s]
    grid_yaw_error: np.ndarray | None = None  # (N,) [rad/s]
    grid_fell: np.ndarray | None = None  # (N,) bool
    scatter_speed: np.ndarray | None = None  # (P,) [rad/s]
    scatter_torque: np.ndarray | None = None  # (P,) [N m]
    showcase: Showcase | None = None


def evidence_of(scenario: Scenario, rec: Trajectory) -> Evidence | None:
    """Data for the plots from one recording; None if they need nothing of it."""
    if scenario.commands != "grid":
        return None
    speed, torque = rec.joint_vel[rec.alive].ravel(), rec.torque[rec.alive].ravel()
    chosen = np.random.default_rng(0).choice(len(speed), min(SCATTER_POINTS, len(speed)), replace=False)
    extreme = np.argsort(np.abs(torque))[-SCATTER_POINTS // 10 :]  # the corners are what an owner asks about
    chosen = np.union1d(chosen, extreme)
    return Evidence(
        grid_command=rec.command[0],
        grid_lin_error=lin_vel_errors(rec),
        grid_yaw_error=yaw_vel_errors(rec),
        grid_fell=rec.fall_step >= 0,
        scatter_speed=speed[chosen],
        scatter_torque=torque[chosen],
    )
