"""The order of states by the robot's own clock, whatever order they came in."""

from __future__ import annotations


class Order:
    """Tells states that are newer than those before from those that came late, which must not be used."""

    def __init__(self, rate: float, wraps: int = 0):
        """``rate`` [1/s] of the clock, which begins anew after ``wraps`` ticks; 0 if it never does."""
        self.rate, self._wraps = rate, wraps
        self._newest: int | None = None
        self.behind = 0.0
        """How much older than the newest before it a state was at most [s]."""

    def accepts(self, tick: int) -> bool:
        """True if the state of this tick is as new as any before. A clock counts from its first tick but zero."""
        if self._newest is None:
            self._newest = tick or None
            return True
        ahead = tick - self._newest
        if self._wraps:
            ahead = (ahead + self._wraps // 2) % self._wraps - self._wraps // 2
        if ahead < 0:
            self.behind = max(self.behind, -ahead / self.rate)
            return False
        self._newest = tick
        return True
