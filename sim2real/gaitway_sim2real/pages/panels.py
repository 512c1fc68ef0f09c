"""Plots of quantities over time, one panel above the other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from .model import Figure
from .svg import Axes

POINTS = 1200
"""Most points of a line, roughly: the lowest and the highest of each stretch, so that no peak is lost."""
PHASES = 14
"""Height of the line of their names [pixels]."""
VELOCITY = (("vx", "m/s"), ("vy", "m/s"), ("yaw rate", "rad/s"))
"""The components of a velocity command, and their units."""

Line = tuple[np.ndarray, np.ndarray, str]
"""Times and values, (T,) each, and the CSS class that draws them."""
Mark = tuple[float, float, str, str]
"""Start and end of a stretch of time, CSS class and title of what happened then."""


def stacked(
    rows: Sequence[tuple[str, Sequence[Line]]],
    span: tuple[float, float] | None = None,
    *,
    legend: Sequence[tuple[str, str]] = (),
    xlabel: str = "time [s]",
    height: int = 94,
    bands: Sequence[Mark] = (),
    events: Sequence[Mark] = (),
    phases: Sequence[tuple[float, float, str]] = (),
    zero: bool = False,
) -> Figure:
    """One panel for each label and its lines, over the time ``span`` [s], by default that of the first line.

    A panel is ``height`` [pixels] high. ``bands`` are drawn behind the grid, ``events`` before it, names of ``phases``
    above the first panel; ``zero`` keeps zero in the picture.
    """
    start, end = span or (float(rows[0][1][0][0][0]), float(rows[0][1][0][0][-1]))
    end = end if end > start else start + 1.0
    panels = []
    for number, (label, lines) in enumerate(rows):
        low, high = _range([values for _, values, _ in lines], zero)
        last = number == len(rows) - 1
        bottom = 40 if last else 24
        named = phases if number == 0 else ()
        top = 18 + (PHASES if named else 0)
        axes = Axes(x=(start, end), y=(low, high), height=height + top + bottom - 10, top=top, bottom=bottom)
        _draw(axes, bands)
        axes.grid(xlabel if last else "")
        axes.text(axes.left, 12, label, "label", anchor="start")  # above: a name of a joint is longer than a panel high
        _draw(axes, events)
        for begun, ended, text in named:
            axes.text((axes.px(begun) + axes.px(ended)) / 2, axes.top + 1, text, "phase")
        for time, values, css in lines:
            axes.line(*thin(time, np.asarray(values, float)), css)
        panels.append(axes.render(label))
    return Figure("".join(panels), legend=legend)


def velocity_rows(time: np.ndarray, **series: np.ndarray) -> list[tuple[str, list[Line]]]:
    """Rows of :func:`stacked` for velocities (T, 3), by the CSS class that draws them."""
    return [
        (f"{name} [{unit}]", [(time, values[:, k], css) for css, values in series.items()])
        for k, (name, unit) in enumerate(VELOCITY)
    ]


def thin(time: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest value of each of POINTS / 2 stretches, in order; NaN where a stretch has nothing else."""
    if len(time) <= POINTS:
        return time, values
    edges = np.linspace(0, len(time), POINTS // 2 + 1).astype(int)
    chosen = []
    for a, b in itertools.pairwise(edges):
        part = values[a:b]
        if np.isfinite(part).any():
            chosen += sorted({a + int(np.nanargmin(part)), a + int(np.nanargmax(part))})
        else:
            chosen.append(a)
    return time[chosen], values[chosen]


def _range(series: Sequence[np.ndarray], zero: bool) -> tuple[float, float]:
    finite = [values[np.isfinite(values)] for values in series]
    low = min((float(values.min()) for values in finite if len(values)), default=0.0)
    high = max((float(values.max()) for values in finite if len(values)), default=1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    pad = 0.08 * max(high - low, 0.1 * abs(high), 1e-3)
    return low - pad, high + pad


def _draw(axes: Axes, marks: Sequence[Mark]) -> None:
    for start, end, css, title in marks:
        if end >= axes.x[0] and start <= axes.x[1]:
            axes.box(max(start, axes.x[0]), min(end, axes.x[1]), *axes.y, css, title)
