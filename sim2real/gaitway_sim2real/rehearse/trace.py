"""Trace of the twin's true state during a rehearsal, one row per policy period."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Trace:
    """T rows; times are since the policy took over [s]."""

    time: np.ndarray = field(default_factory=lambda: np.zeros(0))
    command: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))
    """vx, vy [m/s], yaw rate [rad/s], as the policy got it, (T, 3)"""
    velocity: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))
    """The same of the base, in its frame, (T, 3)"""
    height: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """Height of the base above the ground [m], (T,)"""
    tilt: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """Angle between the base's z axis and the vertical [rad], (T,)"""
    share: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """Largest torque asked for in the period, as a share of the joint's limit, (T,)"""
    lap: float = 0.0
    """Length of one round of the command script [s]."""

    def errors(self, settle: float) -> tuple[float, float]:
        """Mean linear [m/s] and yaw rate [rad/s] error, without the ``settle`` seconds after a change of command."""
        if not len(self.time):
            return float("nan"), float("nan")
        changed = np.concatenate([[True], np.any(np.diff(self.command, axis=0) != 0.0, axis=1)])
        last_change = np.maximum.accumulate(np.where(changed, self.time, -np.inf))
        steady = self.time - last_change >= settle
        if not steady.any():
            return float("nan"), float("nan")
        error = (self.velocity - self.command)[steady]
        return float(np.linalg.norm(error[:, :2], axis=1).mean()), float(np.abs(error[:, 2]).mean())
