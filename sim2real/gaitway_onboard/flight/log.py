"""Log of the controller, recorded in flight. Calls must take microseconds: they are made at 500 Hz."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..interface import Array, Signals

if TYPE_CHECKING:  # the recorder's own process needs no policy
    from ..interface import Decision


class FlightLog:
    """Remembers nothing: what a log keeps, it overrides.

    Times are those of the robot's clock [s]; joint arrays are in the robot's order, (J,) each.
    """

    @property
    def incomplete(self) -> str | None:
        """Reason why some records are missing, or None. Asked at every period."""
        return None

    def state(self, signals: Signals) -> None:
        """A state that was not seen before."""

    def frame(self, time: float, mode: str, targets: Array, stiffness: Array, damping: Array, asked: Array) -> None:
        """A command as sent; ``asked`` are the targets before they were clamped. Damping has zero stiffness."""

    def policy(self, step: Decision, late: bool) -> None:
        """One step of the policy; what it estimates for itself has the same names at every step."""

    def event(self, time: float, kind: str, text: str) -> None:
        """A change of mode ("mode"), the reason of a stop ("stop", "trip"), a first clamp, a note."""

    def close(self) -> None:
        """Everything is on disk when this returns."""
