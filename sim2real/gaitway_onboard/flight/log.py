"""What the controller tells the flight recorder. Calls must take microseconds: they are made at 500 Hz."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from ..interface import Array, Signals

NOTHING: Mapping[str, Array] = MappingProxyType({})


class FlightLog(Protocol):
    """Times are those of the robot's clock [s]; joint arrays are in the robot's order, (J,) each."""

    def state(self, signals: Signals) -> None:
        """A state that was not seen before."""
        ...

    def frame(self, time: float, mode: str, targets: Array, stiffness: Array, damping: Array, asked: Array) -> None:
        """A command as sent; ``asked`` are the targets before they were clamped. Damping has zero stiffness."""
        ...

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
        """One step of the policy: its memory before the step, which holds the observation's history, and its output.

        ``estimates`` has what it estimated for itself, by the name of the output: the same names at every step.
        """
        ...

    def event(self, time: float, kind: str, text: str) -> None:
        """A change of mode ("mode"), the reason of a stop ("stop", "trip"), a first clamp, a note."""
        ...

    @property
    def incomplete(self) -> str | None:
        """Why not everything that was told is recorded, or None. Asked at every period."""
        ...

    def close(self) -> None:
        """Everything is on disk when this returns."""
        ...


class NoLog:
    """Remembers nothing."""

    @property
    def incomplete(self) -> str | None:
        return None

    def state(self, signals: Signals) -> None: ...

    def frame(self, time: float, mode: str, targets: Array, stiffness: Array, damping: Array, asked: Array) -> None: ...

    def policy(
        self,
        time: float,
        command: tuple[float, float, float],
        state: Array,
        action: Array,
        targets: Array,
        late: bool,
        estimates: Mapping[str, Array] = NOTHING,
    ) -> None: ...

    def event(self, time: float, kind: str, text: str) -> None: ...

    def close(self) -> None: ...
