"""Direction in which the legs carry the robot: "up" by the torques of the drives, which no IMU has a part in.

The forces on the feet of a robot that stays where it is balance its weight, on a slope and on stairs too. So their
mean over a second points up, as the orientation and the accelerometer should say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from gaitway_files.errors import UserError

from ..bundle.contract import Contract
from ..estimation.contacts import GRAVITY, ContactDetector
from ..estimation.kinematics import FootKinematics
from ..estimation.legs import LegError, LeggedBody, read_legs
from ..interface import Signals

EVERY = 5
"""States from one look at the legs to the next."""
HINGES = 3
"""Joints of a leg with a ball for a foot; the torques of an ankle would be another unknown."""
CARRIED = 0.5
"""Share of the weight that the legs carry at least where they are believed; less on a stand or in the air."""
TIME = 1.0
"""Time constant of the mean, and the shortest time after which it says something [s]."""

Vector = tuple[float, float, float]


class Support:
    """Give it every state, in turn; :attr:`angle` is how far the mean force is from the mean of "up" [rad]."""

    def __init__(self, body: LeggedBody, joint_names: Sequence[str]):
        """Raises :class:`LegError` for legs of which torques alone do not give the force."""
        if len(body.legs) < HINGES or any(len(leg.hinges) != HINGES for leg in body.legs) or not body.mass:
            raise LegError("it has other legs than three or more of three joints each")
        self._kinematics = FootKinematics(body.legs, joint_names)
        self._contacts = ContactDetector(self._kinematics, body.mass)
        self._least = CARRIED * GRAVITY * body.mass
        self._count = 0
        self.begin()

    def begin(self) -> None:
        """Forget the past."""
        self._force, self._up = np.zeros(3), np.zeros(3)
        self._carried = self._waited = 0.0
        self.angle = 0.0

    def update(self, signals: Signals, up: Vector, passed: float) -> None:
        """``up`` is the world's z axis in the base's frame by the orientation; ``passed`` since the last state [s]."""
        torque = signals.joint_torque
        self._waited += passed
        self._count += 1
        if self._count % EVERY:
            return
        passed, self._waited = self._waited, 0.0
        if torque is None or not math.isfinite(float(torque.sum())):
            self.begin()
            return
        upward = np.array(up)
        self._kinematics.update(np.asarray(signals.joint_pos, float), upward)
        force = self._contacts.loads(np.asarray(torque, float)).sum(0)
        share = passed / (TIME + passed)
        self._force += share * (force - self._force)
        self._up += share * (upward - self._up)
        size = float(np.linalg.norm(self._force))
        # Right after the start a mean is still small.
        grown = 1.0 - math.exp(-(self._carried + passed) / TIME)
        self._carried += passed
        if size < self._least * grown:
            self.begin()
        elif self._carried >= TIME:
            cosine = float(self._force @ self._up) / max(1e-9, size * float(np.linalg.norm(self._up)))
            self.angle = math.acos(max(-1.0, min(1.0, cosine)))


def open_support(bundle: str | Path, joint_names: Sequence[str]) -> Support | str:
    """The support of a bundle's robot, or why there is none, in words."""
    contract = Contract.load(bundle)
    try:
        return Support(read_legs(Path(bundle) / "robot.xml", contract.base_body, contract.foot_bodies), joint_names)
    except UserError as error:
        return str(error)
