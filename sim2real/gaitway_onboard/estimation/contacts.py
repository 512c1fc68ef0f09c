"""Contact detection: the share of the robot's weight that each foot carries, by sensor or by the torques of its leg."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..interface import Array as Signal
from ..interface import Signals
from .kinematics import FootKinematics

Array = NDArray[np.float64]

GRAVITY = 9.81
SWING, STANCE = 0.06, 0.2
"""Shares of the weight below which a foot surely swings and above which it surely stands."""
SETTLING = 1.0
"""Time over which the sensors' unit is learnt [s]."""
LEVEL = 0.03
"""Feet this much higher than the lowest seem to swing [m]."""
RAISED = 0.1
"""Weight of the torques of a raised foot's leg: the foot may stand on a step."""


class ContactDetector:
    """Confidence that each foot stands, from 0 to 1, (F,); by the best signal that a state has.

    Feet's own sensors come first, against the weight that they show on average, since unit and offset are theirs.
    Torques of the drives come second: -J^-T tau is the force on a foot whose leg has no mass. Real legs have, so that
    a leg which swings seems to press; it seldom does so on the ground, and feet above the lowest count less. With
    neither signal the lowest feet are taken to stand.
    """

    def __init__(self, kinematics: FootKinematics, mass: float, sensors: Sequence[int] = ()):
        """``mass`` of the robot [kg]; ``sensors`` is the foot under each sensor, empty where there are none."""
        self._kinematics, self._weight = kinematics, mass * GRAVITY
        self._sensors = np.array(sensors, dtype=np.intp)
        self._force = np.zeros(len(kinematics.contact))
        self._ridge = 1e-6 * np.eye(3)
        self.reset()

    def reset(self) -> None:
        self._shown = 0.0

    def update(self, signals: Signals, up: Array, dt: float) -> Array:
        if len(self._sensors) and signals.foot_force is not None and self._sense(signals.foot_force, dt):
            return _grade(self._force / self._shown)
        height = self._kinematics.contact @ up
        low: Array = np.maximum(0.0, 1.0 - (height - height.min()) / LEVEL)
        if signals.joint_torque is None or not self._weight:
            return low
        load = self.loads(np.asarray(signals.joint_torque, dtype=float)) @ up
        return _grade(load / self._weight) * (RAISED + (1.0 - RAISED) * low)

    def _sense(self, force: Signal, dt: float) -> bool:
        """Take in the sensors; False if they show nothing, as if they were not connected."""
        self._force[self._sensors] = force
        np.maximum(self._force, 0.0, out=self._force)
        total = float(self._force.sum())
        self._shown += (total - self._shown) * (min(1.0, dt / SETTLING) if self._shown > 0.0 else 1.0)
        return self._shown > 0.0

    def loads(self, torque: Array) -> Array:
        """Force of the ground on each foot [N], base frame, (F, 3), if its leg were without mass."""
        jacobian = self._kinematics.jacobian
        pull = jacobian @ torque[self._kinematics.joints].T[:, :, None]
        square = jacobian @ jacobian.transpose(0, 2, 1) + self._ridge
        return np.asarray(-np.linalg.solve(square, pull)[:, :, 0], dtype=float)


def _grade(share: Array) -> Array:
    return np.minimum(1.0, np.maximum(0.0, (share - SWING) / (STANCE - SWING)))
