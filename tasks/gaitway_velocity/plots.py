"""Plots of how a robot follows velocities, as inline SVG."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.pages.model import Figure, Group, heading, note
from gaitway_sim2real.pages.panels import VELOCITY, stacked, velocity_rows
from gaitway_sim2real.pages.svg import Axes
from gaitway_sim2real.trial.simulate import Trajectory

from .commands import SIDE
from .metrics import lin_vel_errors, yaw_vel_errors
from .showcase import Showcase


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What became of the commands of :func:`.commands.command_grid`."""

    command: np.ndarray  # (N, 3)
    lin_error: np.ndarray  # (N,) [m/s]
    yaw_error: np.ndarray  # (N,) [rad/s]
    fell: np.ndarray  # (N,) bool

    @classmethod
    def of(cls, rec: Trajectory) -> Grid:
        return cls(
            command=rec.command[0],
            lin_error=lin_vel_errors(rec),
            yaw_error=yaw_vel_errors(rec),
            fell=rec.fall_step >= 0,
        )


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


def error_maps(grid: Grid, contract: Contract, limits: Mapping[str, float]) -> list[Any]:
    """Tracking errors over the commands; ``limits`` by metric."""
    linear, yaw = limits.get("lin_vel_error", 0.15), limits.get("yaw_vel_error", 0.15)
    return [
        heading("Mean error for each command"),
        Group(
            Figure(error_map(grid, 1, contract, linear), "Linear velocity error [m/s], no turning"),
            Figure(error_map(grid, 2, contract, yaw), "Yaw rate error [rad/s], vy = 0"),
        ),
        note(
            "Each cell is one robot holding one command of the cell for the whole time, the start from rest included. "
            f"The darkest cells are at {2 * linear:.2f} m/s and {2 * yaw:.2f} rad/s or more, twice the limit of the "
            "mean."
        ),
    ]


def error_map(grid: Grid, row: int, contract: Contract, limit: float) -> str:
    """Tracking error over vx and, as ``row``, vy (1) or yaw rate (2): linear error for vy, yaw error for yaw rate."""
    command, fell = grid.command, grid.fell
    error = grid.lin_error if row == 1 else grid.yaw_error
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
