"""What comes in over the wire, in one form whatever the wire, and a record of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gaitway_onboard.interface import Array


@dataclass(frozen=True, slots=True)
class Command:
    """One frame for all drives, in the order of the twin's ``joint_names``, (J,) each."""

    enabled: Array
    """Whether each motor is switched on."""
    q: Array
    """[rad]"""
    dq: Array
    """[rad/s]"""
    tau: Array
    """[N m]"""
    kp: Array
    """[N m/rad]"""
    kd: Array
    """[N m s/rad]"""

    def torque(self, joint_pos: Array, joint_vel: Array) -> Array:
        """What the law asks for in a state, before any limit [N m], (J,)."""
        asked = self.tau + self.kp * (self.q - joint_pos) + self.kd * (self.dq - joint_vel)
        return np.where(self.enabled, asked, 0.0)


@dataclass(frozen=True, slots=True)
class Received:
    """A command as it came, and the robot as it was."""

    time: float
    """Arrival [s], on the bus's clock."""
    command: Command
    joint_pos: Array
    """The truth at that time [rad], (J,)."""
    joint_vel: Array
    """[rad/s], (J,)"""
    told_pos: Array
    """What the newest state said that had been delivered by then: what a controller could answer [rad], (J,)."""
    told_vel: Array
    """[rad/s], (J,)"""


@dataclass(slots=True)
class Counters:
    """Frames on the command topic, since the start."""

    accepted: int = 0
    corrupt: int = 0
    """Wrong checksum: ignored."""
    foreign: int = 0
    """No such message, or one that repeats another ``mode_machine``: ignored."""
    not_finite: int = 0
    """Ignored."""
    refused: int = 0
    """Came while the robot's own controller was active: ignored."""
    lost: int = 0
    """By the quirk ``command_loss``."""
