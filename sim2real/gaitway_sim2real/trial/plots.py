"""The report's plots, as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from ..pages.media import picture
from ..pages.model import Figure, Group, heading, note
from ..pages.svg import Axes, number, ticks
from .evidence import Evidence
from .metric import Metric
from .result import ScenarioResult
from .sensitivity import Factor


def torque_speed(evidence: Evidence, contract: Contract) -> str:
    """Joint torque against joint speed, with the limits of the actuator law."""
    speed, torque = evidence.speed, evidence.torque
    assert speed is not None and torque is not None
    effort = max(contract.per_joint("effort_limit"))
    fastest = max(*(law.velocity_limit or 0.0 for law in contract.actuators), float(np.abs(speed).max(initial=0.1)))
    axes = Axes(
        x=(-1.08 * fastest, 1.08 * fastest), y=(-1.15 * effort, 1.15 * effort), height=320, width=720, bottom=40
    )
    axes.grid("joint speed [rad/s]", "joint torque [N m]", y=ticks(*axes.y, 6))
    axes.dots(speed, torque, "dots")
    grid = np.linspace(*axes.x, 241)
    limits = {(law.effort_limit, law.saturation_effort, law.velocity_limit) for law in contract.actuators}
    for effort, stall, no_load in sorted(limits, key=lambda limit: limit[0]):
        high, low = np.full(len(grid), effort), np.full(len(grid), -effort)
        if stall is not None and no_load is not None:
            high = np.clip(stall - stall / no_load * grid, -effort, effort)
            low = np.clip(-stall - stall / no_load * grid, -effort, effort)
        axes.line(grid, high, "limit")
        axes.line(grid, low, "limit")
    return axes.render("torque and speed of all joints within the limits of the drive")


def fall_causes(causes: dict[str, int]) -> str:
    """Horizontal bars: how often each cause ended a robot's walk."""
    rows = sorted(causes.items(), key=lambda item: -item[1])[:8]
    axes = Axes(x=(0.0, float(rows[0][1])), y=(float(len(rows)), 0.0), height=14 + 24 * len(rows),
                left=190, right=60, top=4, bottom=6)  # fmt: skip
    for k, (cause, count) in enumerate(rows):
        axes.box(0.0, count, k + 0.18, k + 0.82, "cause")
        axes.name(k + 0.5, cause)
        axes.text(axes.px(count) + 6, axes.py(k + 0.5) + 4, str(count), anchor="start")
    return axes.render("causes of falls")


def pictures(title: str, strip: Sequence[tuple[str, bytes]] | str) -> list[Any]:
    """Captions and JPEG pictures under a ``title``, or why there are none."""
    if isinstance(strip, str):
        shown: Any = note(f"No pictures: {strip}.", "muted")
    else:
        shown = Group(*(Figure(picture(data, text), text) for text, data in strip), css="strip")
    return [heading(title), shown]


def sensitivity_plot(factors: Sequence[Factor], results: Sequence[ScenarioResult], metrics: Sequence[Metric]) -> str:
    """A row for each level of each factor, a column for each metric: value, interval, limit and the nominal value."""
    left, line, gap, right = 216, 17, 7, 6
    by_name = {result.name: result for result in results}
    height = 46 + sum(gap + line * len(factor.levels) for factor in factors)
    page = Axes(x=(0, 1), y=(height, 0), height=height, left=left, right=0, top=0, bottom=0)
    rows, y = [], 34.0
    for factor in factors:
        y += gap
        page.text(4, y + 4, factor.title, "label", "start")
        page.add(f'<line x1="0" x2="{page.width}" y1="{y - 11}" y2="{y - 11}" class="grid"/>')
        for level in factor.levels:
            page.name(y, level.label)
            rows.append((y, by_name[level.scenario]))
            y += line
    column = (page.width - left - right) / len(metrics)
    for k, metric in enumerate(metrics):
        _column(page, metric, rows, round(left + k * column), round(column) - 14)
    return page.render("what one change at a time does")


def _column(page: Axes, metric: Metric, rows: Sequence[tuple[float, ScenarioResult]], left: int, width: int) -> None:
    """One metric of the results, each at its height on the page [pixels]."""
    found = []
    for y, result in rows:
        value = result.metrics.get(metric.name, np.nan)
        check = next((check for check in result.checks if check.metric.name == metric.name), None)
        found.append((y, value, result.intervals.get(metric.name, (value, value)), check))
    marked = [end for _, value, ends, check in found for end in (value, *ends, check.limit if check else np.nan)]
    if not np.isfinite(marked).any():
        return
    top = 1.08 * max(float(np.nanmax(marked)), 1e-6)
    axes = replace(page, x=(0.0, top), left=left, right=page.width - left - width)
    scale, unit = (100.0, "%") if metric.percent else (100.0, "cm") if metric.unit == "m" else (1.0, metric.unit)
    axes.text(left + width / 2, 10, metric.title, "label")
    axes.text(left, 24, "0", anchor="start")
    axes.text(left + width, 24, f"{number(float(f'{scale * top:.2g}'))} {unit}".rstrip(), anchor="end")
    axes.line((0.0, 0.0), (rows[0][0] - 9, rows[-1][0] + 9), "grid")
    for y, value, (low, high), check in found:
        if check is not None:
            axes.line((check.limit, check.limit), (y - 8, y + 8), "limit")
        if np.isfinite(value):
            css = "bad" if check is not None and not check.passed else "fine"
            axes.line((max(low, 0.0), high), (y, y), f"whisker {css}")
            axes.add(f'<circle cx="{axes.px(value)}" cy="{y}" r="3.4" class="dot {css}"/>')
