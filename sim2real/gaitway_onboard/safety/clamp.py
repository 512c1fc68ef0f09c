"""The last thing between a policy and the motors: a command that asks no joint for more than it can bear.

A drive exerts ``kp (target - q) - kd qd``. Given the state it answers, the target is moved, and where the damping term
alone is too much kd is lowered, until that is within the effort limit; in the float32 numbers that go on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..interface import Array

MARGIN = 1e-4
"""Share of the effort limit left unused, so that rounding, to float32 or in a drive, does not cross it."""
NOTICEABLE = 1e-5
"""Changes of a target below this are rounding, not clamping [rad]."""


@dataclass(slots=True)
class Command:
    """Command to the drives, float32, (J,) each."""

    targets: NDArray[np.float32]
    """[rad]"""
    stiffness: NDArray[np.float32]
    """[N m/rad]"""
    damping: NDArray[np.float32]
    """[N m s/rad]"""
    clamped: bool
    """True if it differs from the requested command."""


class Clamp:
    """Per joint: effort limit [N m], and lowest and highest target [rad], (J,) each."""

    def __init__(self, effort_limit: Array, low: Array, high: Array):
        self.effort_limit = np.asarray(effort_limit, float)
        self.low, self.high = np.asarray(low, float), np.asarray(high, float)
        self._usable = (1.0 - MARGIN) * self.effort_limit

    def command(self, targets: Array, pos: Array, vel: Array, stiffness: Array, damping: Array) -> Command:
        """Targets within range, and torques ``|kp (target - q) - kd qd|`` within the effort limit, in that order.

        A joint beyond its range may so keep a target beyond it: pulling it back with more than its limit would be
        worse. A target that is no number becomes the measured position. ``pos`` and ``vel`` must be finite.
        """
        pos, vel = np.asarray(pos, float), np.asarray(vel, float)
        stiffness, damping, lowered = np.asarray(stiffness, float), *self._bearable(vel, damping)
        asked = np.asarray(targets, float)
        wanted = np.minimum(np.maximum(np.where(np.isnan(asked), pos, asked), self.low), self.high)
        softest = np.maximum(stiffness, 1e-9)  # a joint without stiffness has no torque that a target could change
        drag = damping * vel
        wanted = np.minimum(
            np.maximum(wanted, pos + (drag - self._usable) / softest), pos + (drag + self._usable) / softest
        )
        clamped = lowered or not np.abs(wanted - asked).max() <= NOTICEABLE
        command = Command(
            wanted.astype(np.float32), stiffness.astype(np.float32), damping.astype(np.float32), bool(clamped)
        )
        if (over := self._over(command, pos, vel)).any():
            self._give_way(command, pos, vel, over)
        return command

    def damp(self, pos: Array, vel: Array, damping: Array) -> Command:
        """Damping only, lowered where it would exceed the effort limit."""
        damping, lowered = self._bearable(np.asarray(vel, float), damping)
        zeros = np.zeros(len(self.low), np.float32)
        command = Command(np.asarray(pos, np.float32), zeros, damping.astype(np.float32), lowered)
        if (over := self._over(command, np.asarray(pos, float), np.asarray(vel, float))).any():
            command.damping[over] = 0.0
        return command

    def _bearable(self, vel: Array, damping: Array) -> tuple[Array, bool]:
        damping, speed = np.asarray(damping, float), np.abs(vel)
        over = damping * speed > self._usable
        if not over.any():
            return damping, False
        return np.where(over, self._usable / np.maximum(speed, 1e-9), damping), True

    def _over(self, command: Command, pos: Array, vel: Array) -> NDArray[np.bool_]:
        error = command.targets.astype(float) - pos
        return ~(np.abs(command.stiffness * error - command.damping * vel) <= self.effort_limit)

    def _give_way(self, command: Command, pos: Array, vel: Array, over: NDArray[np.bool_]) -> None:
        """Gains so high, or numbers so large, that rounding matters: let go step by step."""
        command.clamped = True
        command.targets[over] = pos[over]
        command.stiffness[over := self._over(command, pos, vel)] = 0.0
        command.damping[self._over(command, pos, vel)] = 0.0
