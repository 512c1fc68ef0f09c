"""A flight log in memory: what the controller says that it does, for a verdict instead of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from gaitway_onboard.flight.log import NOTHING
from gaitway_onboard.interface import Array, Signals

MOVED = 1e-3
"""[rad]"""


@dataclass(frozen=True, kw_only=True)
class Event:
    time: float
    kind: str
    text: str


class Witness:
    """Implements :class:`gaitway_onboard.flight.log.FlightLog`."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.modes: list[tuple[float, str]] = []
        """Every change of mode, and when [s]."""
        self.states = self.frames = self.late = 0
        self.moved = 0
        """Frames with a target further than :data:`MOVED` from what was asked for, in any mode."""

    def state(self, signals: Signals) -> None:
        self.states += 1

    def frame(self, time: float, mode: str, targets: Array, stiffness: Array, damping: Array, asked: Array) -> None:
        self.frames += 1
        self.moved += not np.abs(targets - asked).max() <= MOVED

    def policy(
        self,
        time: float,
        command: tuple[float, float, float],
        state: Array,
        action: Array,
        targets: Array,
        late: bool,
        estimates: Mapping[str, Array] = NOTHING,
    ) -> None:
        self.late += late

    def event(self, time: float, kind: str, text: str) -> None:
        self.events.append(Event(time=time, kind=kind, text=text))
        if kind == "mode":
            self.modes.append((time, text))

    @property
    def incomplete(self) -> None:
        return None

    def close(self) -> None:
        pass

    def since(self, mode: str) -> float | None:
        """When ``mode`` was entered first [s], or None."""
        return next((time for time, name in self.modes if name == mode), None)

    def first(self, kind: str) -> Event | None:
        return next((event for event in self.events if event.kind == kind), None)
