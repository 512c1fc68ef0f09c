"""The robot's own controller, as far as it matters here: it holds the robot up or lays it down until it is released.

It stands for what Unitree calls sport mode (Go2) or the AI controller (G1, H1). It does not walk.
"""

from __future__ import annotations

import numpy as np
from gaitway_onboard.interface import Array

from ..mujoco.body import Body
from .command import Command
from .drives import Drives

MOVE = 1.5  # [s] to stand up or to lie down
STIFFNESS_REACH = 0.4  # [rad], error at which standing asks for the whole effort
DAMPING_SHARE = 0.03  # [s], kd / kp


class SportMode:
    """``active`` until it is released; drives the motors as long as it is."""

    def __init__(self, name: str, body: Body, drives: Drives, *, standing: bool):
        self.name, self.active = name, True
        self._body, self._drives = body, drives
        self._kp = drives.limits.effort / STIFFNESS_REACH
        self._all = np.ones(len(self._kp), bool)
        self._move: tuple[float, Array, Array] | None = None
        self.posture = "standing" if standing else "lying"
        if standing:
            self._hold(0.0, body.default_pos)
        else:
            drives.damp(0.0)

    @property
    def number(self) -> int:
        """``mode`` of the sport state: 1 standing, 5 lying, 7 damping."""
        return {"standing": 1, "lying": 5, "damping": 7}[self.posture]

    def stand_up(self, now: float) -> None:
        self._go(now, "standing", self._body.default_pos)

    def stand_down(self, now: float) -> None:
        self._go(now, "lying", self._body.folded())

    def damp(self, now: float) -> None:
        self.posture, self._move = "damping", None
        self._drives.damp(now)

    def release(self) -> None:
        """Leave the motors without torque: whatever stood on them drops."""
        self.active, self._move = False, None
        self._drives.release()

    def select(self, now: float) -> None:
        """Drive the motors again, damped at first."""
        self.active = True
        self.damp(now)

    def step(self, now: float) -> None:
        """Go on with a move; once in each physics step."""
        if self._move is None or not self.active:
            return
        started, start, goal = self._move
        share = min(1.0, (now - started) / MOVE)
        self._hold(now, start + share * share * (3.0 - 2.0 * share) * (goal - start))
        if share >= 1.0:
            self._move = None
            if self.posture == "lying":
                self._drives.damp(now)

    def _go(self, now: float, posture: str, goal: Array) -> None:
        self.posture, self._move = posture, (now, self._body.joint_pos, goal)

    def _hold(self, now: float, pose: Array) -> None:
        still = np.zeros_like(self._kp)
        self._drives.command(now, Command(self._all, pose, still, still, self._kp, DAMPING_SHARE * self._kp))
