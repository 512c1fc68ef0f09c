"""The sections of a report that are about walking: gait, rough ground, following velocities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.mujoco.floors import GAIT_FLOORS
from gaitway_sim2real.pages.model import Cell, Section, Table, heading, mark, note
from gaitway_sim2real.trial.evidence import Evidence, Strip
from gaitway_sim2real.trial.plots import pictures
from gaitway_sim2real.trial.report import allowed, short
from gaitway_sim2real.trial.result import ScenarioResult
from gaitway_sim2real.trial.verdict import Verdict

from . import gait_plots, plots
from .command_classes import CLASSES
from .ground_section import ground_section
from .metrics import GAIT, METRICS
from .showcase import Showcase
from .small_section import small_section

OWN = "own_velocity_error"
TRACKING = (
    "lin_vel_error", "lin_vel_bias", "lin_vel_oscillation", "yaw_vel_error", "yaw_vel_bias", "yaw_vel_oscillation",
)  # fmt: skip
TABLE_METRICS = (
    "falls", *TRACKING, "cost_of_transport", "torque_rms", "torque_peak", "torque_saturation",
    "joint_limit_use", "action_rate", "foot_slip", "air_time",
)  # fmt: skip


def sections(verdict: Verdict, evidence: Evidence, contract: Contract, climbs: Mapping[str, Strip]) -> list[Any]:
    """All of them, in their order; ``climbs`` are pictures of walks over rough ground, by their titles."""
    return [
        _gait(verdict, evidence, contract),
        ground_section(verdict, climbs),
        _tracking(evidence, contract, verdict),
        small_section(verdict, evidence),
        _own_velocity(verdict),
    ]


def _gait(verdict: Verdict, evidence: Evidence, contract: Contract) -> Section:
    """Film strip, table of the gaits, feet over time and from the side, and the spectrum of the torques."""
    limits = {c.metric.name: c.limit for r in verdict.scenarios for c in r.checks}
    shown = evidence.showcase
    drawn = gait_plots.gait_figures(shown, contract, limits) if isinstance(shown, Showcase) else []
    strip = pictures("One stride, walking forward", evidence.strip)
    return Section("Gait", *strip, *_gait_tables(verdict), *drawn)


def _gait_tables(verdict: Verdict) -> list[Any]:
    """The gait of each command class, with limits and intervals, on each floor that it was measured on."""
    parts: list[Any] = []
    for suffix, floor in GAIT_FLOORS.items():
        found = {kind.title: f"gait_{name}{suffix}" for name, kind in CLASSES.items()}
        results = {title: r for title, name in found.items() for r in verdict.scenarios if r.name == name}
        rows = []
        known = {name for result in results.values() for name, value in result.metrics.items() if not math.isnan(value)}
        for metric in (name for name in (*GAIT, *TRACKING, "cost_of_transport") if name in known):
            check = next((c for r in results.values() for c in r.checks if c.metric.name == metric), None)
            limit = "" if check is None else "\n" + allowed(check).replace(" ", "\xa0")
            rows.append([METRICS[metric].title + limit, *(_gait_cell(r, metric) for r in results.values())])
        if results:
            parts += [heading(f"Gait on {floor.title}, for each kind of command"), Table(["", *results], rows)]
    text = (
        "Small: on the left the limits, in the cells the intervals of the mean over the robots. A limit holds when the "
        "whole interval does."
    )
    return [*parts, note(text)] if parts else []


def _gait_cell(result: ScenarioResult, metric: str) -> Cell:
    check = next((c for c in result.checks if c.metric.name == metric), None)
    low, high = result.intervals.get(metric, (math.nan, math.nan))
    first, last = (short(METRICS[metric], max(end, 0.0)).split()[0] for end in (low, high))
    ends = "" if math.isnan(low) else f"\n{first} to {last}"
    return mark(check is None or check.passed, text=short(METRICS[metric], result.metrics.get(metric, math.nan)) + ends)


def _tracking(evidence: Evidence, contract: Contract, verdict: Verdict) -> Section:
    limits = {c.metric.name: c.limit for r in verdict.scenarios if r.name == "command_grid" for c in r.checks}
    shown = evidence.showcase
    drawn = [plots.velocity_plots(shown)] if isinstance(shown, Showcase) else []
    maps = plots.error_maps(evidence.own["grid"], contract, limits) if "grid" in evidence.own else []
    return Section("Following commands", *drawn, *maps)


def _own_velocity(verdict: Verdict) -> Section | None:
    """Section with the errors of the policy's own estimate of its base velocity, scenario by scenario."""
    rows = []
    for result in verdict.scenarios:
        value = result.metrics.get(OWN, math.nan)
        if not math.isnan(value):
            low, high = result.intervals.get(OWN, (math.nan, math.nan))
            ends = "" if math.isnan(low) else f"{short(METRICS[OWN], low)} to {short(METRICS[OWN], high)}"
            rows.append([result.title, short(METRICS[OWN], value), ends])
    about = f"{METRICS[OWN].about} The mean over the robots, and its interval. Nothing is required of it."
    table = Table(["Scenario", "Error", "Interval"], rows)
    return Section("Velocity as the policy estimates it", table, note(about)) if rows else None
