"""The rehearsal's plots, as inline SVG."""

from __future__ import annotations

import numpy as np

from ..pages.svg import Axes
from .trace import Trace

COMPONENTS = (("vx", "m/s"), ("vy", "m/s"), ("yaw rate", "rad/s"))


def velocity(trace: Trace) -> str:
    """Commanded and measured velocity of the last full round of the script, one panel per component."""
    rounds = max(1, int(trace.time[-1] / trace.lap)) if trace.lap else 1
    start = (rounds - 1) * trace.lap
    chosen = (trace.time >= start) & (trace.time <= start + (trace.lap or trace.time[-1]))
    time, command, measured = trace.time[chosen], trace.command[chosen], trace.velocity[chosen]
    panels = []
    for k, (name, unit) in enumerate(COMPONENTS):
        both = np.concatenate([command[:, k], measured[:, k]])
        pad = 0.1 * max(float(np.ptp(both)), 0.5)
        last = k == len(COMPONENTS) - 1
        axes = _axes(time, float(both.min()) - pad, float(both.max()) + pad, last)
        axes.grid("time since the policy took over [s]" if last else "", f"{name} [{unit}]")
        axes.line(time, measured[:, k], "measured")
        axes.line(time, command[:, k], "command")
        panels.append(axes.render(f"{name}: commanded and measured"))
    return "".join(panels)


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
        axes = _axes(time, 0.0, 1.12 * max(high, 1e-3), k == len(rows) - 1)
        axes.grid("time since the policy took over [s]" if k == len(rows) - 1 else "", label)
        for line in lines:
            axes.line(time, line, "share")
        panels.append(axes.render(label))
    return "".join(panels)


def _axes(time: np.ndarray, low: float, high: float, last: bool) -> Axes:
    return Axes(
        x=(float(time[0]), float(time[-1])), y=(low, high), height=136 if last else 116, bottom=40 if last else 20
    )
