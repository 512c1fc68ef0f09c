"""The twin in real time: stepped by the wall clock, for the program on the other end of a real bus."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

from gaitway_onboard.realtime import prioritised
from gaitway_onboard.wire.bus import Bus

from .twin import Twin

PRIORITY = 30
"""Among real-time threads: a robot does not slow down because a computer is busy, but must not delay its controller."""
BEHIND = 0.1
"""A twin that is further behind the clock [s] lets it jump: catching up would send a burst of old states."""


@dataclass(frozen=True, kw_only=True)
class ServeReport:
    seconds: float
    """Served, on the clock [s]."""
    skipped: float
    """Part of that which was skipped because the machine was too slow [s]."""
    worst: float
    """Largest lag of a step behind the clock [s]."""
    load: float
    """Share of one core, of 1."""


def serve(
    twin: Twin,
    bus: Bus,
    *,
    seconds: float = float("inf"),
    stopped: Callable[[], bool] = lambda: False,
    every: Callable[[], None] = lambda: None,
) -> ServeReport:
    """Step ``twin`` by the clock of ``bus`` for ``seconds``, or until ``stopped``; ``every`` is called each time."""
    skipped = worst = 0.0
    gc.collect()
    gc.freeze()
    with prioritised(PRIORITY), contextlib.ExitStack() as stack:
        stack.callback(gc.unfreeze)
        twin.skip(bus.clock() - twin.time)
        started, cpu = bus.clock(), time.process_time()
        while not stopped() and bus.clock() - started < seconds:
            bus.sleep_until(twin.time + twin.period)
            behind = bus.clock() - twin.time - twin.period
            worst = max(worst, behind)
            if behind > BEHIND:
                twin.skip(behind)
                skipped += behind
            twin.advance(bus.clock())
            every()
    passed = max(bus.clock() - started, 1e-9)
    return ServeReport(seconds=passed, skipped=skipped, worst=worst, load=(time.process_time() - cpu) / passed)
