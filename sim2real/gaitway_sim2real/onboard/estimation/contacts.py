"""Which feet stand: how much of the robot's weight each of them carries, by sensor or by the torques of its leg."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..interface import Signals
from .kinematics import FootKinematics

Array = NDArray[np.float64]

GRAVITY = 9.81
SWING, STANCE = 0.06, 0.2
"""Shares of the weight below which a foot surely swings and above which it surely stands."""
SETTLING = 1.0
"""Over how long the sensors' unit is learnt [s]."""
LEVEL = 0.02
"""Without forces, feet this much higher than the lowest surely swing [m]."""


class ContactDetector:
    """How surely each foot stands, from 0 to 1, (F,); by the best signal that a state has.

    Drives' torques come first: -J^-T tau is the force on a foot whose leg is light, in newtons, and needs no
    calibration. Feet's own sensors come second, against the weight that they show on average, since their unit and
    offset are theirs. With neither, the lowest feet are taken to stand.
    """

    def __init__(self, kinematics: FootKinematics, mass: float):
        self._kinematics, self._weight = kinematics, mass * GRAVITY
        self._feet = len(kinematics.contact)
        self._ridge = 1e-6 * np.eye(3)
        self.reset()

    def reset(self) -> None:
        self._shown = 0.0

    def update(self, signals: Signals, up: Array, dt: float) -> Array:
        if signals.joint_torque is not None and self._weight > 0.0:
            return self._grade(self.loads(np.asarray(signals.joint_torque, dtype=float)) @ up / self._weight)
        if signals.foot_force is not None and np.size(signals.foot_force) == self._feet:
            force = np.maximum(np.asarray(signals.foot_force, dtype=float), 0.0)
            total = float(force.sum())
            self._shown += (total - self._shown) * (min(1.0, dt / SETTLING) if self._shown > 0.0 else 1.0)
            return self._grade(force / max(self._shown, 1e-9))
        height = self._kinematics.contact @ up
        return np.asarray(np.clip(1.0 - (height - height.min()) / LEVEL, 0.0, 1.0), dtype=float)

    def loads(self, torque: Array) -> Array:
        """Force of the ground on each foot [N], base frame, (F, 3), if its leg were without mass."""
        jacobian = self._kinematics.jacobian
        pull = jacobian @ torque[self._kinematics.joints].T[:, :, None]
        square = jacobian @ jacobian.transpose(0, 2, 1) + self._ridge
        return np.asarray(-np.linalg.solve(square, pull)[:, :, 0], dtype=float)

    @staticmethod
    def _grade(share: Array) -> Array:
        return np.asarray(np.clip((share - SWING) / (STANCE - SWING), 0.0, 1.0), dtype=float)
