"""The interface of estimators: they see every new state and fill in what the policy asks for."""

from __future__ import annotations

from typing import Protocol

from ..interface import Signals


class Estimator(Protocol):
    provides: tuple[str, ...]
    """Fields of :class:`Signals` that it fills in, such as ("base_lin_vel",)."""

    def reset(self) -> None:
        """Forget the past: the robot stands."""
        ...

    def update(self, signals: Signals) -> None:
        """Take in a new state and write the estimates into it; called once for each, in order, at the state's rate."""
        ...
