"""Declarations of observation terms: the signals that a term reads, and how a mirror transforms it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from gaitway_files.errors import UserError

from .vocabulary import MIRROR_KINDS, OBSERVATIONS, SIGNALS

F = TypeVar("F", bound=Callable[..., object])

MEASURED = frozenset(name for name, signal in SIGNALS.items() if signal.measured)
"""Joint encoders, the IMU's orientation and angular velocity, the operator's command, the policy's own last action."""


def reads(*signals: str, mirror: str | None = None) -> Callable[[F], F]:
    """Declare the signals that a term reads, and its ``mirror`` kind, one of :data:`MIRROR_KINDS`.

    Export refuses an actor that reads unmeasurable signals; symmetry refuses a term without a mirror kind.
    """
    if mirror is not None and mirror not in MIRROR_KINDS:
        raise UserError(f"mirror kind {mirror!r}: use one of {', '.join(MIRROR_KINDS)}")

    def mark(func: F) -> F:
        func.signals = frozenset(signals)  # type: ignore[attr-defined]
        func.mirror = mirror  # type: ignore[attr-defined]
        return func

    return mark


def observes(func: F) -> F:
    """Declare one of Gaitway's terms by its row of :data:`gaitway_tasks.vocabulary.OBSERVATIONS`."""
    row = OBSERVATIONS[func.__name__]
    return reads(row.signal, mirror=row.mirror)(func)


IMU = frozenset(("imu_quat_wxyz", "gyro"))
"""Signals of the IMU, which a robot with a fixed base does not have."""
BODIES = frozenset(name for name, signal in SIGNALS.items() if signal.type == "BodyState")
"""Poses and twists of bodies, which a simulator computes for the terms that declare that they read them."""


def read_by(terms: Iterable[Any]) -> frozenset[str]:
    """Signals that ``terms`` declare: rewards, terminations, observations, events."""
    return frozenset(signal for term in terms for signal in getattr(term.func, "signals", ()))


def signals_of(func: Callable[..., object]) -> frozenset[str]:
    """Signals declared by ``func``; an undeclared term counts as unmeasurable under its own name."""
    return getattr(func, "signals", frozenset({f"undeclared:{getattr(func, '__name__', func)}"}))
