"""What is wrong, by name and in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """Why the robot must not be driven."""

    name: str
    """Of the check: one of :data:`gaitway_onboard.safety.checks.TRIPS`."""
    text: str
