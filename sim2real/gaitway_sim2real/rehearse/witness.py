"""A flight log in memory: what the controller says that it does, for a verdict instead of a file."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from gaitway_onboard.flight.log import FlightLog
from gaitway_onboard.interface import Array, Decision

MOVED = 1e-3
"""[rad]"""


class Event(NamedTuple):
    time: float
    kind: str
    text: str


class Witness(FlightLog):
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.late = 0
        """Steps of the policy."""
        self.moved = 0
        """Frames with a target further than :data:`MOVED` from what was asked for, in any mode."""

    def frame(self, time: float, mode: str, targets: Array, stiffness: Array, damping: Array, asked: Array) -> None:
        self.moved += not np.abs(targets - asked).max() <= MOVED

    def policy(self, step: Decision, late: bool) -> None:
        self.late += late

    def event(self, time: float, kind: str, text: str) -> None:
        self.events.append(Event(time, kind, text))

    def since(self, mode: str) -> float | None:
        """Time at which ``mode`` was first entered [s], or None."""
        return next((event.time for event in self.events if (event.kind, event.text) == ("mode", mode)), None)

    def first(self, kind: str) -> Event | None:
        return next((event for event in self.events if event.kind == kind), None)
