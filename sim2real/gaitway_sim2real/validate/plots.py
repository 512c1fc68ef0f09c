"""The report's plots, as inline SVG."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from ..pages.model import Figure, Group, heading, note
from ..pages.panels import VELOCITY, stacked, velocity_rows
from ..pages.svg import Axes, ticks
from .commands import SIDE
from .evidence import Evidence
from .showcase import Showcase


def velocity_plots(showcase: Showcase) -> Figure:
    """Commanded and measured velocity over time, one panel per component."""
    rec = showcase.recording
    time = (np.arange(len(rec.command)) + 1) * rec.control_dt
    measured = np.concatenate([rec.lin_vel[:, 0, :2], rec.ang_vel[:, 0, 2:]], 1).astype(float)
    measured[~rec.alive[:, 0]] = np.nan
    labels = showcase.labels
    changes = [0, *(i for i in range(1, len(time)) if labels[i] != labels[i - 1]), len(time) - 1]
    phases = [(time[start], time[end], labels[start]) for start, end in itertools.pairwise(changes)]
    rows = velocity_rows(time, measured=measured, command=rec.command[:, 0])
    legend = ("command", "commanded"), ("measured", "measured, base frame")
    return stacked(rows, (0.0, float(time[-1])), legend=legend, phases=phases)


def error_maps(evidence: Evidence, contract: Contract, limits: Mapping[str, float]) -> list[Any]:
    """Tracking errors over the commands; ``limits`` by metric."""
    linear, yaw = limits.get("lin_vel_error", 0.15), limits.get("yaw_vel_error", 0.15)
    return [
        heading("Mean error for each command"),
        Group(
            Figure(error_map(evidence, 1, contract, linear), "Linear velocity error [m/s], no turning"),
            Figure(error_map(evidence, 2, contract, yaw), "Yaw rate error [rad/s], vy = 0"),
        ),
        note(
            "Each cell is one robot holding one command of the cell for the whole time, the start from rest included. "
            f"The darkest cells are at {2 * linear:.2f} m/s and {2 * yaw:.2f} rad/s or more, twice the limit of the "
            "mean."
        ),
    ]


def error_map(evidence: Evidence, row: int, contract: Contract, limit: float) -> str:
    """Tracking error over vx and, as ``row``, vy (1) or yaw rate (2): linear error for vy, yaw error for yaw rate."""
    command, fell = evidence.grid_command, evidence.grid_fell
    error = evidence.grid_lin_error if row == 1 else evidence.grid_yaw_error
    assert command is not None and fell is not None and error is not None
    ranges = np.array(contract.command_ranges)[[0, row]]
    halves = np.maximum(np.ptp(ranges, axis=1) / (2 * SIDE), 0.05)
    vx, other = (low + half * (2 * np.arange(SIDE) + 1) for (low, _), half in zip(ranges, halves, strict=True))
    x, y = ((float(at[0] - half), float(at[-1] + half)) for at, half in zip((vx, other), halves, strict=True))
    axes = Axes(x=x, y=y, width=350, height=320, left=60, bottom=42)
    name, unit = VELOCITY[row]
    half_x, half_y = 0.94 * halves
    for cell, i in zip(itertools.product(vx, other), range((row - 1) * SIDE**2, len(command)), strict=False):
        share = float(np.clip(error[i] / (2 * limit), 0, 1))
        tip = f"vx {command[i, 0]:+.2f} m/s, {name} {command[i, row]:+.2f} {unit}: error {error[i]:.3f}"
        x0, y0 = cell
        tip += ", fell" * bool(fell[i])
        style = f"--share:{share:.3f}"
        axes.box(x0 - half_x, x0 + half_x, y0 - half_y, y0 + half_y, "cell fell" if fell[i] else "cell", tip, style)
        css = "cell-text strong" if share > 0.6 or fell[i] else "cell-text"
        axes.text(axes.px(x0), axes.py(y0) + 4, "fell" if fell[i] else f"{error[i]:.2f}", css)
    axes.grid("commanded vx [m/s]", f"commanded {name} [{unit}]", x=vx.round(2), y=other.round(2), lines=False)
    return axes.render(f"error over vx and {name}")


def torque_speed(evidence: Evidence, contract: Contract) -> str:
    """Joint torque against joint speed, with the limits of the actuator law."""
    speed, torque = evidence.scatter_speed, evidence.scatter_torque
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
