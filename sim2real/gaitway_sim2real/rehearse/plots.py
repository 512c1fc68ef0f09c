"""The rehearsal's plots."""

from __future__ import annotations

import numpy as np

from ..pages.model import Figure
from ..pages.panels import stacked, velocity_rows
from .trace import Trace

XLABEL = "time since the policy took over [s]"


def velocity(trace: Trace) -> Figure:
    """Commanded and measured velocity of the last full round of the script, one panel per component."""
    rounds = max(1, int(trace.time[-1] / trace.lap)) if trace.lap else 1
    start = (rounds - 1) * trace.lap
    chosen = (trace.time >= start) & (trace.time <= start + (trace.lap or trace.time[-1]))
    time = trace.time[chosen]
    rows = velocity_rows(time, measured=trace.velocity[chosen], command=trace.command[chosen])
    legend = ("command", "commanded"), ("measured", "measured by the twin, base frame")
    return stacked(rows, legend=legend, xlabel=XLABEL)


def whole(trace: Trace) -> Figure | None:
    """Height, tilt and torque share of the whole run, extremes of each second."""
    starts = np.flatnonzero(np.diff(trace.time.astype(int), prepend=-1))
    time = trace.time[starts]
    if len(time) < 2:
        return None
    rows = [
        (label, [(time, extreme.reduceat(values, starts), "share") for extreme in extremes])
        for label, values, *extremes in (
            ("height [m]", trace.height, np.minimum, np.maximum),
            ("tilt [rad]", trace.tilt, np.maximum),
            ("torque of limit", trace.share, np.maximum),
        )
    ]
    return stacked(rows, xlabel=XLABEL, zero=True)
