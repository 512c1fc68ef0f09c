"""The rehearsal's plots, as inline SVG."""

from __future__ import annotations

import numpy as np

from ..pages.panels import stacked, velocity_rows
from .trace import Trace

XLABEL = "time since the policy took over [s]"


def velocity(trace: Trace) -> str:
    """Commanded and measured velocity of the last full round of the script, one panel per component."""
    rounds = max(1, int(trace.time[-1] / trace.lap)) if trace.lap else 1
    start = (rounds - 1) * trace.lap
    chosen = (trace.time >= start) & (trace.time <= start + (trace.lap or trace.time[-1]))
    time = trace.time[chosen]
    rows = velocity_rows(time, measured=trace.velocity[chosen], command=trace.command[chosen])
    return stacked(rows, (float(time[0]), float(time[-1])), xlabel=XLABEL)


def whole(trace: Trace) -> str:
    """Height, tilt and torque share of the whole run, extremes of each second."""
    seconds = trace.time.astype(int)
    starts = np.flatnonzero(np.diff(seconds, prepend=-1))
    time = trace.time[starts]
    if len(time) < 2:
        return ""
    highest = {
        name: np.maximum.reduceat(values, starts)
        for name, values in (("height", trace.height), ("tilt", trace.tilt), ("share", trace.share))
    }
    highest = {
        name: np.maximum.reduceat(values, starts)
        for name, values in (("height", trace.height), ("tilt", trace.tilt), ("share", trace.share))
    }
    lowest = np.minimum.reduceat(trace.height, starts)
    rows = [
        ("height [m]", [(time, lowest, "share"), (time, highest["height"], "share")]),
        ("tilt [rad]", [(time, highest["tilt"], "share")]),
        ("torque of limit", [(time, highest["share"], "share")]),
    ]
    return stacked(rows, (float(time[0]), float(time[-1])), xlabel=XLABEL, zero=True)
