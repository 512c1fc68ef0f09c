"""Which signals an observation term reads, and which of them a legged robot measures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

MEASURED = frozenset({"joint_pos", "joint_vel", "imu_quat_wxyz", "gyro", "command", "action"})
"""Joint encoders, the IMU's orientation and angular velocity, the operator's command, the policy's own last action."""


def reads(*signals: str) -> Callable[[F], F]:
    """Declare the signals that a term reads; export refuses an actor that reads what no robot measures."""

    def mark(func: F) -> F:
        func.signals = frozenset(signals)  # type: ignore[attr-defined]
        return func

    return mark


def signals_of(func: Callable[..., object]) -> frozenset[str]:
    """Signals declared by ``func``; an undeclared term counts as unmeasurable under its own name."""
    return getattr(func, "signals", frozenset({f"undeclared:{getattr(func, '__name__', func)}"}))
