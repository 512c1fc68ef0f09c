"""The figures of a comparison: one drawing serves the PNG, the SVG file and the page, where style sheets colour it."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from .comparison import Comparison, Curve
from .measures import Pairing, pairings
from .published import Published
from .series import Axis
from .statistics import FEWEST

if TYPE_CHECKING:
    from matplotlib.axes import Axes

matplotlib.use("agg", force=False)

INK, MUTED, GRID = "#1d2229", "#646d78", "#dfe3e8"
COLOURS = (
    "#266ec4", "#e2771c", "#2b8a57", "#8a4fbf", "#c23b3b", "#1795a6", "#8c6239", "#d1559b", "#7d8a2e", "#4a5a9c",
)  # fmt: skip
VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--line", **{c: f"--g{i}" for i, c in enumerate(COLOURS)}}
"""Colours of the files, and the style sheet's names for them on the page."""
STYLE: Any = {
    "font.size": 10.5,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.titlesize": 11.5,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "svg.fonttype": "none",
}
PANEL = (6.8, 3.9)  # of one task [in]
ROW = 14.0  # width of several panels side by side [in]
MOST_LETTERS = 30  # of a name in a figure


@dataclass(frozen=True)
class Drawing:
    name: str
    title: str
    caption: str
    figure: Figure

    @cached_property
    def svg(self) -> str:
        return self._write("svg", metadata={"Date": None}).decode("utf-8")

    def png(self) -> bytes:
        return self._write("png", dpi=150)

    def inline(self) -> str:
        """SVG to stand in a page: no header, ids of its own, short coordinates, colours by names of the style sheet."""
        text = self.svg[self.svg.index("<svg") :].replace("#ffffff", "none")
        text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
        box = re.search(r'viewBox="([^"]*)"', text)
        head = f'<svg viewBox="{box[1] if box else ""}" role="img" aria-label="{escape(self.title)}">'
        text = re.sub(r"<svg\b[^>]*>", head, text, count=1, flags=re.DOTALL).replace("xlink:href", "href")
        text = re.sub(r'\bid="|url\(#|href="#', lambda match: f"{match[0]}{self.name}-", text)
        text = re.sub(r' d="[^"]*"', lambda match: re.sub(r"(\.\d\d)\d+", r"\1", match[0]), text)
        for colour, variable in VARIABLES.items():
            text = text.replace(colour, f"var({variable})")
        return text.strip()

    def _write(self, kind: str, **options: Any) -> bytes:
        buffer = io.BytesIO()
        with matplotlib.rc_context(STYLE | {"svg.hashsalt": self.name}):
            self.figure.savefig(buffer, format=kind, facecolor="white", **options)
        return buffer.getvalue()


def draw(comparison: Comparison) -> list[Drawing]:
    """All figures that make sense for this comparison."""
    with matplotlib.rc_context(STYLE):
        drawings = [_curves(comparison, "steps"), _curves(comparison, "wall_s")]
        if len(comparison.ranked_tasks) > 1:
            drawings.append(_efficiency(comparison))
        if comparison.ranked_tasks and len(comparison.groups) > 1:
            drawings.append(_intervals(comparison))
        if found := [one for one in pairings(comparison) if math.isfinite(one.estimate.low)]:
            drawings.append(_improvements(comparison, found))
        if comparison.ranked_tasks and len(comparison.runs) > 1:
            drawings.append(_profiles(comparison))
        for drawing in drawings:  # arranged once, not for every format
            drawing.figure.draw_without_rendering()
            drawing.figure.set_layout_engine("none")
    return drawings


def _curves(comparison: Comparison, axis: Axis) -> Drawing:
    tasks = comparison.tasks
    columns = min(len(tasks), 3)
    rows = math.ceil(len(tasks) / columns)
    size = PANEL if columns == 1 else (ROW, PANEL[1] * rows * (1.0 if columns == 2 else 0.85))
    figure = Figure(figsize=size, layout="constrained")
    unit, seconds = ("steps", 1.0) if axis == "steps" else _time_unit(comparison)
    for number, task in enumerate(tasks):
        axes = figure.add_subplot(rows, columns, number + 1)
        for curve in comparison.curves(task, axis):
            _draw_curve(axes, curve, _colour(comparison, curve.group), seconds)
        for one in comparison.published:
            if one.task == task:
                _draw_published(axes, one, axis)
        axes.set_title(task)
        axes.set_xlim(left=0.0)
        axes.set_xlabel("environment steps" if axis == "steps" else f"wall time [{unit}]")
        axes.set_ylabel(comparison.metric)
        if axis == "steps":
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    _legend(figure, comparison)
    if axis == "wall_s":
        return Drawing("curves-time", f"{comparison.metric} by wall time", "By wall time.", figure)
    caption = (
        "By environment steps. Thin: single runs. Bold: interquartile mean over runs (with three or fewer, the mean) "
        f"with its 95 % bootstrap interval (with fewer than {FEWEST}, minimum and maximum), as far as all runs go. A "
        "curve's right end is the run's score."
    )
    if comparison.published:
        caption += " Dashed: published."
    if comparison.obstacles:
        caption += f" Groups are not comparable on {', '.join(comparison.obstacles)}."
    return Drawing("curves-steps", f"{comparison.metric} by environment steps", caption, figure)


def _draw_published(axes: Axes, published: Published, axis: Axis) -> None:
    """A line at a score, and over steps a curve through points."""
    style: Any = {"color": INK, "linewidth": 1.0, "linestyle": (0, (4, 3))}
    curve = [(steps, score) for steps, score in published.points if steps is not None]
    for score in (score for steps, score in published.points if steps is None):
        axes.axhline(score, **style)
        axes.annotate(
            _short(published.source), (0.02, score), (0, 2), xycoords=("axes fraction", "data"),
            textcoords="offset points", fontsize=8, parse_math=False,
        )  # fmt: skip
    if curve and axis == "steps":
        axes.plot(*zip(*curve, strict=True), marker="o", markersize=3.5, **style)
        axes.annotate(
            _short(published.source), curve[-1], (-3, -13), textcoords="offset points", ha="right", fontsize=8,
            parse_math=False,
        )  # fmt: skip


def _draw_curve(axes: Axes, curve: Curve, colour: str, seconds: float) -> None:
    for x, y in curve.runs:
        axes.plot(x / seconds, y, color=colour, linewidth=0.8, alpha=0.4)
    _draw_band(axes, curve.x / seconds, curve.estimate, colour)


def _draw_band(axes: Axes, x: Any, estimate: Any, colour: str) -> None:
    axes.fill_between(x, estimate.low, estimate.high, color=colour, alpha=0.16, linewidth=0)
    axes.plot(x, estimate.value, color=colour, linewidth=2.0)


def _efficiency(comparison: Comparison) -> Drawing:
    figure = Figure(figsize=PANEL, layout="constrained")
    axes = figure.add_subplot()
    for curve in comparison.efficiency():
        _draw_curve(axes, curve, _colour(comparison, curve.group), 1.0)
    axes.set_xlim(0.0, 100.0)
    axes.set_xlabel("steps done [% of the run]")
    axes.set_ylabel("score, IQM over tasks")
    _legend(figure, comparison)
    caption = (
        f"Sample efficiency: interquartile mean of the curves of {len(comparison.ranked_tasks)} tasks; "
        f"{comparison.normalisation.about}."
    )
    return Drawing("efficiency", "Sample efficiency over all tasks", caption, figure)


def _intervals(comparison: Comparison) -> Drawing:
    found = comparison.aggregates
    names = list(next(iter(found.values())))
    figure = Figure(figsize=(ROW, 1.0 + 0.34 * len(found)), layout="constrained")
    for column, name in enumerate(names):
        axes = figure.add_subplot(1, len(names), column + 1)
        estimates = [by_name[name] for by_name in found.values()]
        _draw_intervals(axes, estimates, [_colour(comparison, group) for group in found])
        axes.set_yticks(range(len(found)), [_short(group) for group in found] if column == 0 else [""] * len(found))
        axes.set_title(f"{name}, smaller is better" if name == "Optimality gap" else name)
        axes.locator_params(axis="x", nbins=5)
    bar = "95 % interval" if comparison.intervals else f"minimum and maximum, or with {FEWEST} runs 95 % interval"
    return Drawing("aggregates", "Aggregates", f"Line: estimate. Bar: {bar}.", figure)


def _improvements(comparison: Comparison, found: Sequence[Pairing]) -> Drawing:
    figure = Figure(figsize=(PANEL[0], 1.0 + 0.6 * len(found)), layout="constrained")
    axes = figure.add_subplot()
    _draw_intervals(axes, [one.estimate for one in found], [_colour(comparison, one.group) for one in found])
    names = [f"{_short(one.group)} over\n{_short(one.other)}\n{_short(one.measure.name)}" for one in found]
    axes.set_yticks(range(len(found)), names)
    axes.axvline(0.5, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)))
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("probability of improvement")
    caption = "Probability of improvement with its 95 % interval; the dashed line says: no difference."
    return Drawing("improvement", "Probability of improvement with 95 % intervals", caption, figure)


def _draw_intervals(axes: Axes, estimates: Sequence[Any], colours: Sequence[str]) -> None:
    for y, (one, colour) in enumerate(zip(estimates, colours, strict=True)):
        low, high, value = float(one.low), float(one.high), float(one.value)
        if math.isfinite(low):
            axes.barh(y, high - low, left=low, height=0.5, color=colour, alpha=0.55, linewidth=0)
        axes.plot([value, value], [y - 0.25, y + 0.25], color=INK, linewidth=1.6)
    axes.set_ylim(len(estimates) - 0.5, -0.5)
    axes.use_sticky_edges = False
    axes.margins(x=0.12)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def _profiles(comparison: Comparison) -> Drawing:
    thresholds, profiles = comparison.profiles()
    figure = Figure(figsize=PANEL, layout="constrained")
    axes = figure.add_subplot()
    for group, profile in profiles.items():
        if profile.extremes:  # those of a share are 0 and 1
            axes.plot(thresholds, profile.value, color=_colour(comparison, group), linewidth=2.0)
        else:
            _draw_band(axes, thresholds, profile, _colour(comparison, group))
    axes.set_xlim(float(thresholds[0]), float(thresholds[-1]))
    axes.set_ylim(-0.02, 1.02)
    scaled = comparison.normalisation.scales
    axes.set_xlabel("normalised score τ" if scaled else f"{comparison.metric} τ")
    axes.set_ylabel("share of runs above τ")
    _legend(figure, comparison)
    caption = "Performance profile: which share of the runs scores more than τ"
    caption += ", with 95 % intervals. Higher is better." if comparison.intervals else ". Higher is better."
    return Drawing("profile", "Performance profiles", caption, figure)


def _legend(figure: Figure, comparison: Comparison) -> None:
    if len(comparison.groups) > 1:
        from matplotlib.lines import Line2D

        lines = [Line2D([], [], color=_colour(comparison, group), linewidth=2.0) for group in comparison.groups]
        width = figure.get_figwidth()
        names = [_short(group) for group in comparison.groups]
        columns = max(1, int(width * 9 // (max(map(len, names)) + 5)))
        figure.legend(lines, names, loc="outside upper left", ncols=min(columns, len(lines)))


def _short(name: str) -> str:
    """A name that leaves room for the drawing: beginning and end of a long one."""
    return name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS // 2]}…{name[-MOST_LETTERS // 2 + 1 :]}"


def _colour(comparison: Comparison, group: str) -> str:
    return COLOURS[comparison.groups.index(group) % len(COLOURS)]


def _time_unit(comparison: Comparison) -> tuple[str, float]:
    longest = float(np.max([run.series.end("wall_s") for run in comparison.runs]))
    return next(((unit, s) for unit, s in (("h", 3600.0), ("min", 60.0)) if longest >= 2 * s), ("s", 1.0))
