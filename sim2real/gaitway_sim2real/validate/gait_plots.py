"""What a locomotion engineer looks at first: feet over time, their paths, spectra, and what changes do to the gait."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..pages.svg import Axes, number, ticks
from .feet import FootTrace
from .metrics import METRICS
from .sensitivity import KEY_METRICS, Factor
from .showcase import WINDOW, Showcase
from .verdict import LimitCheck, ScenarioResult

HIGHEST = 0.12  # [m], full height of a foot's row
SIDES = ("LF", "RF", "LH", "RH", "FL", "FR", "RL", "RR", "HL", "HR", "LEFT", "RIGHT", "L", "R", "JOINT")
MOST_TYPES = 6
LOWEST_FREQUENCY = 1 / WINDOW  # [Hz]


def feet_over_time(showcase: Showcase, start: float, end: float, *, clearance: float | None, slip: float | None) -> str:
    """For each foot, bars where it stands, red where it slips by more than ``slip`` [m/s], and its height between.

    ``clearance`` [m] is the height that a swing must reach.
    """
    feet = showcase.feet
    span = slice(round(start / feet.dt), round(end / feet.dt))
    axes = Axes(
        x=(0.0, end - start), y=(0.0, float(len(feet.names))),
        width=440, height=34 + 40 * len(feet.names), left=74, right=48, top=4, bottom=30,
    )  # fmt: skip
    time = np.arange(span.stop - span.start) * feet.dt
    for k, name in enumerate(feet.names):
        row = len(feet.names) - 1 - k
        down = feet.contact[span, 0, k]
        slides = down & (feet.slip[span, 0, k] > (np.inf if slip is None else slip))
        axes.box(0.0, end - start, row + 0.06, row + 0.94, "swing")
        for mask, css in ((down, "stance"), (slides, "slide")):
            for a, b in _runs(mask):
                axes.box(a * feet.dt, b * feet.dt, row + 0.06, row + 0.26, css)
        height = np.clip(feet.clearance[span, 0, k], 0.0, HIGHEST) / HIGHEST
        axes.line(time[::2], row + 0.26 + 0.66 * height[::2], "command")
        if clearance is not None:
            level = row + 0.26 + 0.66 * min(clearance / HIGHEST, 1.0)
            axes.line(np.array([0.0, end - start]), np.full(2, level), "limit dashed")
        axes.text(axes.left - 8, axes.py(row + 0.5) + 4, name, anchor="end")
        axes.text(axes.width - axes.right + 6, axes.py(row + 0.5) + 4, f"{100 * down.mean():.0f} %", anchor="start")
    for value in np.arange(0.0, end - start + 0.01, 0.5):
        axes.text(axes.px(value), axes.height - axes.bottom + 13, number(float(value)))
    axes.text((axes.left + axes.width - axes.right) / 2, axes.height - 3, "time [s]", "label")
    return axes.render("contacts and heights of the feet over time")


def side_view(showcase: Showcase, start: float, end: float, *, clearance: float | None) -> str:
    """Height of each foot against how far it is ahead of the base; left and right in two colours."""
    feet, rec = showcase.feet, showcase.recording
    span = slice(round(start / feet.dt), round(end / feet.dt))
    at = (np.arange(len(feet.contact)) + 1) * feet.dt
    steps = (np.arange(len(rec.command)) + 1) * rec.control_dt
    x = np.stack([np.interp(at, steps, path)[span] for path in showcase.foot_x.T], 1)
    height = 100 * feet.clearance[span, 0]
    ends = (float(x.min()) - 0.03, float(x.max()) + 0.03)
    heights = (min(-0.5, float(height.min()) - 0.3), max(8.0, 1.1 * float(height.max())))
    axes = Axes(x=ends, y=heights, width=440, height=210, bottom=40)
    axes.grid("ahead of the base [m]", "height [cm]")
    for k in range(len(feet.names)):
        axes.line(x[::2, k], height[::2, k], "command" if feet.places[k, 1] > 0 else "measured")
    if clearance is not None:
        axes.line(np.array(axes.x), np.full(2, 100 * clearance), "limit dashed")
    return axes.render("paths of the feet from the side")


def torque_spectrum(
    showcase: Showcase, joint_names: Sequence[str], *, step_rate: float | None
) -> tuple[str, list[str]]:
    """Amplitude of the torques over frequency, a curve for each type of joint, and the types in the order of colours.

    Mean over the windows of :meth:`.Showcase.windows`, Hann window, at control steps. ``step_rate`` [1/s] is drawn.
    """
    rec = showcase.recording
    types = joint_types(joint_names)
    count = round(WINDOW / rec.control_dt)
    shape = np.hanning(count)[:, None]
    power = np.zeros((count // 2 + 1, len(joint_names)))
    windows = showcase.windows()
    for _, _, end in windows:
        last = round(end / rec.control_dt)
        torque = rec.torque[last - count : last, 0].astype(float)
        power += (2 * np.abs(np.fft.rfft((torque - torque.mean(0)) * shape, axis=0)) / shape.sum()) ** 2
    amplitude = np.sqrt(power / max(len(windows), 1))
    frequency = np.fft.rfftfreq(count, rec.control_dt)
    curves = {name: np.sqrt((amplitude[:, of] ** 2).mean(1)) for name, of in types.items()}
    chosen = sorted(curves, key=lambda name: -float(curves[name][1:].sum()))[:MOST_TYPES]
    kept = frequency >= LOWEST_FREQUENCY
    logs = {name: np.log10(np.maximum(curves[name][kept], 1e-3)) for name in chosen}
    high = float(np.ceil(max((values.max() for values in logs.values()), default=1.0)))
    low = float(max(np.floor(min((values.min() for values in logs.values()), default=0.0)), high - 4))
    axes = Axes(x=(0.0, float(frequency[-1])), y=(low, high), height=260, bottom=40, left=56)
    for decade in range(int(low), int(high) + 1):
        y = axes.py(decade)
        axes.add(f'<line x1="{axes.left}" x2="{axes.width - axes.right}" y1="{y}" y2="{y}" class="grid"/>')
        axes.text(axes.left - 6, y + 3.5, f"{10.0**decade:g}", anchor="end")
    for value in ticks(*axes.x, 8):
        axes.text(axes.px(value), axes.height - axes.bottom + 15, number(value))
    axes.text((axes.left + axes.width - axes.right) / 2, axes.height - 5, "frequency [Hz]", "label")
    axes.text(11, (axes.top + axes.height - axes.bottom) / 2, "amplitude [N m]", "label", turn=True)
    axes.items = [item for item in axes.items if "e-" not in item]
    for k, name in enumerate(chosen):
        axes.line(frequency[kept], np.maximum(logs[name], low), f"series s{k}")
    if step_rate is not None:
        axes.line(np.full(2, step_rate), np.array(axes.y), "limit dashed")
        axes.text(axes.px(step_rate) + 5, axes.top + 9, f"fastest stepping allowed, {step_rate:.1f} Hz", anchor="start")
    return axes.render("spectrum of the joint torques"), chosen


def joint_types(names: Sequence[str]) -> dict[str, list[int]]:
    """Joints that differ only in the leg or side that they are on: a name for each type, and their numbers."""
    types: dict[str, list[int]] = {}
    for number_, name in enumerate(names):
        parts = [part for part in name.split("_") if part.upper() not in SIDES]
        types.setdefault(" ".join(parts) or name, []).append(number_)
    return types


def sensitivity_plot(factors: Sequence[Factor], results: Sequence[ScenarioResult], metrics: Sequence[str]) -> str:
    """A row for each level of each factor, a column for each metric: value, interval, limit and the nominal value."""
    by_name = {result.name: result for result in results}
    rows: list[tuple[str, str, str]] = []
    for factor in factors:
        for level in factor.levels:
            rows.append((factor.title, level.label, level.scenario))
    left, line, width = 216, 17, 720
    column = (width - left - 6) / len(metrics)
    height = 46 + line * len(rows) + 7 * len(factors)
    page = Axes(x=(0, 1), y=(0, 1), width=width, height=height, left=left, right=0)
    places, y, before = [], 34.0, ""
    for title, label, _ in rows:
        if title != before:
            y += 7
            page.text(4, y + 4, title, "label", "start")
            page.add(f'<line x1="0" x2="{width}" y1="{y - 11}" y2="{y - 11}" class="grid"/>')
        before = title
        page.text(left - 8, y + 4, label, anchor="end")
        places.append(y)
        y += line
    for k, metric in enumerate(metrics):
        _column(page, metric, [by_name[name] for *_, name in rows], places, left + k * column, column - 14)
    return page.render("what one change at a time does")


def _column(
    page: Axes, metric: str, results: Sequence[ScenarioResult], places: Sequence[float], left: float, width: float
) -> None:
    values = [result.metrics.get(metric, np.nan) for result in results]
    ends = [result.intervals.get(metric, (value, value)) for result, value in zip(results, values, strict=True)]
    checks: list[LimitCheck | None] = [
        next((check for check in result.checks if check.metric == metric), None) for result in results
    ]
    limits = [check.limit for check in checks if check is not None]
    finite = [value for value in (*values, *limits, *(end for pair in ends for end in pair)) if np.isfinite(value)]
    if not finite:
        return
    top = 1.08 * max(max(finite), 1e-6)
    info = METRICS[metric]

    def px(value: float) -> float:
        return round(left + width * min(max(value, 0.0), top) / top, 1)

    def mark(value: float, css: str, y0: float, y1: float) -> None:
        page.add(f'<line x1="{px(value)}" x2="{px(value)}" y1="{y0}" y2="{y1}" class="{css}"/>')

    scale, unit = (100.0, "%") if info.percent else (100.0, "cm") if info.unit == "m" else (1.0, info.unit)
    page.text(left + width / 2, 10, info.title, "label")
    page.text(px(0.0), 24, "0", anchor="start")
    page.text(left + width, 24, f"{number(float(f'{scale * top:.2g}'))} {unit}".rstrip(), anchor="end")
    mark(0.0, "grid", places[0] - 9, places[-1] + 9)
    for value, (low, high), check, y in zip(values, ends, checks, places, strict=True):
        if check is not None:
            mark(check.limit, "limit", y - 8, y + 8)
        if not np.isfinite(value):
            continue
        css = "bad" if check is not None and not check.passed else "fine"
        page.add(f'<line x1="{px(low)}" x2="{px(high)}" y1="{y}" y2="{y}" class="whisker {css}"/>')
        page.add(f'<circle cx="{px(value)}" cy="{y}" r="3.4" class="dot {css}"/>')


def key_metrics(factors: Sequence[Factor]) -> list[str]:
    """The key metrics that were measured at any level."""
    levels = [level for factor in factors for level in factor.levels]
    return [name for name in KEY_METRICS if any(np.isfinite(level.values.get(name, np.nan)) for level in levels)]


def one_stride(feet: FootTrace, start: float, end: float) -> tuple[float, float]:
    """From a touch-down of the first foot to the next [s]; a second where it does not step."""
    first, last = round(start / feet.dt), round(end / feet.dt)
    touches = [a for a, b in _runs(feet.contact[first:last, 0, 0]) if a > 0 and b - a >= 0.02 / feet.dt]
    if len(touches) < 2:
        return end - min(1.0, end - start), end
    return start + touches[0] * feet.dt, start + touches[1] * feet.dt


def _runs(mask: np.ndarray) -> list[tuple[int, int]]:
    edges = np.diff(mask.astype(np.int8), prepend=0, append=0)
    return list(zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True))
