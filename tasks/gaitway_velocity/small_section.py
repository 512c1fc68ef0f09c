"""Section of a report on small commands: a response map of each axis, the tour of waypoints, and arms that move."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gaitway_sim2real.pages.model import Figure, Group, Section, Table, heading, mark, note
from gaitway_sim2real.pages.svg import Axes
from gaitway_sim2real.trial.evidence import Evidence
from gaitway_sim2real.trial.report import short
from gaitway_sim2real.trial.result import ScenarioResult
from gaitway_sim2real.trial.verdict import Verdict

from .metrics import METRICS
from .response import AXES, Axis, Response, dead_zone, in_words, slopes
from .small_commands import SMALL_COMMANDS, SMALL_METRICS

TABLE = ("waypoints", "time_lost", "lin_vel_error", "yaw_vel_error", "falls")
KINDS = ("mark", "", *["num"] * len(TABLE))
EVERY = METRICS | {each.name: each for each in SMALL_METRICS}


def small_section(verdict: Verdict, evidence: Evidence) -> Section | None:
    """None if no scenario of small commands was run."""
    own = [scenario.name for scenario in SMALL_COMMANDS]
    results = [result for result in verdict.scenarios if result.name in own]
    maps = [Figure(*response_map(evidence.own[name], axis)) for name, axis in AXES.items() if name in evidence.own]
    parts: list[Any] = []
    if maps:
        text = (
            "Each dot is a robot that holds one command: its mean velocity from 2 s on. Blue: the command; orange: the "
            "mean of the robots; red: the dead zone, in which they move at less than a third of their command."
        )
        parts += [heading("Measured over commanded velocity"), Group(*maps), note(text)]
    rows = [_row(result) for result in results if result.name not in AXES]
    if rows:
        parts += [heading("Waypoints and arms"), Table(["", "", *(EVERY[name].title for name in TABLE)], rows, KINDS)]
    return Section("Small commands", *parts) if parts else None


def _row(result: ScenarioResult) -> list[Any]:
    checks = {check.metric.name: check for check in result.checks}
    cells = [
        mark(name not in checks or checks[name].passed, result.required, short(EVERY[name], value))
        for name, value in ((name, result.metrics.get(name, math.nan)) for name in TABLE)
    ]
    return [mark(result.passed, result.required), result.title, *cells]


def response_map(response: Response, axis: Axis) -> tuple[str, str]:
    """A drawing of one axis, and what it shows in words."""
    told, answer = response.told, response.answer
    known = np.isfinite(answer)
    mean = np.where(known.any(0), np.where(known, answer, 0.0).sum(0) / np.maximum(known.sum(0), 1), np.nan)
    width = float(response.measure()["dead_zone"].mean())
    ends = float(told[0]), float(told[-1])
    reach = min(ends[0], float(answer[known].min(initial=0.0))), max(ends[1], float(answer[known].max(initial=0.0)))
    axes = Axes(x=ends, y=reach, width=350, height=300, left=60, bottom=42)
    axes.grid(f"commanded {axis.name} [{axis.unit}]", f"measured [{axis.unit}]")
    below, above = dead_zone(told, mean)
    axes.box(-below, above, *reach, "mode damp")
    axes.line(ends, ends, "command")
    axes.line(told, mean, "measured")
    axes.dots(np.broadcast_to(told, answer.shape)[known], answer[known], "dots")
    said = ", ".join(f"{slope:.2f}" for slope in slopes(told, mean))
    return axes.render(f"measured over commanded {axis.name}"), f"{in_words(axis, width)}; slopes {said or 'unknown'}"
