"""The rehearsal's plots, as inline SVG."""

from __future__ import annotations

import numpy as np

from ..pages.svg import panel, velocity_panels
from .trace import Trace


def velocity(trace: Trace) -> str:
    """Commanded and measured velocity of the last full round of the script, one panel per component."""
    rounds = max(1, int(trace.time[-1] / trace.lap)) if trace.lap else 1
    start = (rounds - 1) * trace.lap
    chosen = (trace.time >= start) & (trace.time <= start + (trace.lap or trace.time[-1]))
    label = "time since the policy took over [s]"
    return velocity_panels(trace.time[chosen], trace.command[chosen], trace.velocity[chosen], label)


def whole(trace: Trace) -> str:
    """Height, tilt and torque share of the whole run, extremes of each second."""
    seconds = trace.time.astype(int)
    starts = np.flatnonzero(np.diff(seconds, prepend=-1))
    time = trace.time[starts]
    if len(time) < 2:
        return ""
    rows = (
        ("height [m]", (np.minimum.reduceat(trace.height, starts), np.maximum.reduceat(trace.height, starts))),
        ("tilt [rad]", (np.maximum.reduceat(trace.tilt, starts),)),
        ("torque of limit", (np.maximum.reduceat(trace.share, starts),)),
    )
    panels = []
    for k, (label, lines) in enumerate(rows):
        high = max(float(np.nanmax(line)) for line in lines)
        span, last = (float(time[0]), float(time[-1])), k == len(rows) - 1
        axes = panel(span, (0.0, 1.12 * max(high, 1e-3)), label, "time since the policy took over [s]" if last else "")
        for line in lines:
            axes.line(time, line, "share")
        panels.append(axes.render(label))
    return "".join(panels)
