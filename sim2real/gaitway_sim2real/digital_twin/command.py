"""Incoming command, in one form for all wires."""

from __future__ import annotations

from dataclasses import dataclass

from gaitway_onboard.interface import Array


@dataclass(frozen=True, slots=True)
class Command:
    """One frame for all drives, in the order of the twin's ``joint_names``, (J,) each."""

    enabled: Array
    """Mask of the motors that are switched on."""
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


@dataclass(slots=True)
class Counters:
    """Frames on the command topic, since the start."""

    accepted: int = 0
    corrupt: int = 0
    """Wrong checksum: ignored."""
    foreign: int = 0
    """Messages of another type, or ones that repeat another ``mode_machine``: ignored."""
    not_finite: int = 0
    """Ignored."""
    refused: int = 0
    """Came while the robot's own controller was active: ignored."""
    lost: int = 0
    """Messages lost by the quirk ``command_loss``."""
