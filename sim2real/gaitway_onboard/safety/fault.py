"""Fault: a name and a text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """Reason why the robot must not be driven."""

    name: str
    """Name of the check: one of :data:`gaitway_onboard.safety.checks.TRIPS`."""
    text: str
