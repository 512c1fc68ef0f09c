"""Deployment: checks of a connected robot, the loop that drives it, and the guardian beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Unpack

from ..interface import HardwareInterface, Signals
from ..rotation import tilt_of
from ..safety.checks import SafetyFilter
from ..safety.fault import Fault
from ..safety.guardian import Guardian
from .commands import CommandSource
from .controller import Controller, ControllerConfig, Options
from .executor import Policy
from .loop import LoopReport
from .runner import Operator, run_realtime

LOOK = 0.5
"""At the robot before it is driven [s]."""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """State of a connected robot, before anything is commanded."""

    rate: float
    """Rate of new states [Hz]."""
    oldest: float
    """The largest age of the newest state [s]."""
    signals: Signals
    fault: Fault | None
    """The first one that was seen."""

    @property
    def tilt(self) -> float:
        """[rad]"""
        return float(tilt_of(self.signals.orientation))

    def lines(self) -> list[str]:
        health = self.signals.health
        lines = [
            f"states at {self.rate:.0f} Hz, never older than {1e3 * self.oldest:.1f} ms; tilted by {self.tilt:.2f} rad"
        ]
        known = []
        if health is not None:
            if health.battery is not None:
                known.append(f"battery {100 * health.battery:.0f} %")
            if health.motor_temperature is not None:
                known.append(f"warmest motor {health.motor_temperature.max():.0f} degrees C")
            if health.corrupt:
                known.append(f"{health.corrupt} states with a wrong checksum")
            known.append("transmitter heard" if health.remote is not None else "no transmitter heard")
        felt = self.signals.accelerometer
        silent = felt is None or not felt.any()
        lines += ["no accelerometer heard: it can check neither the orientation nor a fall"] if silent else []
        return [*lines, *([", ".join(known)] if known else [])]


def survey(robot: HardwareInterface, safety: SafetyFilter, seconds: float = LOOK) -> Survey:
    """Read for a while; sends nothing."""
    start = now = robot.clock()
    stamps, oldest, fault = set(), 0.0, None
    while now - start < seconds:
        signals = robot.read()
        stamps.add(signals.stamp)
        oldest = max(oldest, now - signals.stamp)
        fault = fault or safety.fault(signals, now)
        robot.sleep_until(now + robot.period)
        now = robot.clock()
    return Survey(rate=len(stamps) / (now - start), oldest=oldest, signals=signals, fault=fault)


def drive(
    robot: HardwareInterface,
    policy: Policy,
    command: CommandSource,
    seconds: float,
    *,
    operators: Sequence[Operator] = (),
    on_start: Callable[[Controller], None] | None = None,
    **options: Unpack[Options],
) -> LoopReport:
    """Take over a connected robot and drive it, with a guardian beside; see :func:`run_realtime`.

    The guardian is there before anything is commanded; a robot without a safe stop has none. Raises
    :class:`DeployError` if the robot cannot be taken over, and
    :class:`gaitway_onboard.safety.guardian.GuardianError` if the guardian does not start.
    """
    limits, say = (options.get("config") or ControllerConfig()).limits, options.get("say")
    stop = robot.safe_stop()
    robot.check_alone()  # before the guardian is there to be seen
    guardian = None
    if stop is not None:
        guardian = Guardian(stop, silence=limits.max_silence)
    elif say is not None:
        say("no guardian: no message damps this robot, so nothing does if this process is killed")
    try:
        if guardian is not None:
            robot.ignore(guardian.identity)
        return run_realtime(
            robot, policy, command, seconds, guardian=guardian, operators=operators, on_start=on_start,
            take_over=robot.take_over, **options,
        )  # fmt: skip
    finally:
        if guardian is not None:
            guardian.close()
