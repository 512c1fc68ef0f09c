"""The report's plots, as inline SVG."""

from __future__ import annotations

import itertools

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from ..pages.panels import VELOCITY, stacked, velocity_rows
from ..pages.svg import Axes, number
from .commands import SIDE
from .evidence import Evidence
from .showcase import Showcase


def velocity_plots(showcase: Showcase) -> str:
    """Commanded and measured velocity over time, one panel per component."""
    rec = showcase.recording
    time = (np.arange(len(rec.command)) + 1) * rec.control_dt
    measured = np.concatenate([rec.lin_vel[:, 0, :2], rec.ang_vel[:, 0, 2:]], 1).astype(float)
    measured[~rec.alive[:, 0]] = np.nan
    labels = showcase.labels
    changes = [0, *(i for i in range(1, len(time)) if labels[i] != labels[i - 1]), len(time) - 1]
    phases = [(time[start], time[end], labels[start]) for start, end in itertools.pairwise(changes)]
    rows = velocity_rows(time, measured=measured, command=rec.command[:, 0])
    return stacked(rows, (0.0, float(time[-1])), phases=phases)


def error_map(evidence: Evidence, row: int, contract: Contract, limit: float) -> str:
    """Tracking error over vx and, as ``row``, vy (1) or yaw rate (2): linear error for vy, yaw error for yaw rate."""
    command, fell = evidence.grid_command, evidence.grid_fell
    error = evidence.grid_lin_error if row == 1 else evidence.grid_yaw_error
    assert command is not None and fell is not None and error is not None
    ranges = np.array(contract.command_ranges)[[0, row]]
    halves = np.maximum(np.ptp(ranges, axis=1) / (2 * SIDE), 0.05)
    vx, other = (low + half * (2 * np.arange(SIDE) + 1) for (low, _), half in zip(ranges, halves, strict=True))
    half_x, half_y = halves
    axes = Axes(
        x=(vx[0] - half_x, vx[-1] + half_x),
        y=(other[0] - half_y, other[-1] + half_y),
        width=350,
        height=320,
        left=60,
        bottom=42,
    )
    name, unit = VELOCITY[row]
    for p, x in enumerate(vx):
        for q, y in enumerate(other):
            i = (row - 1) * SIDE**2 + p * SIDE + q
            if i >= len(command):  # fewer robots than cells
                continue
            told = command[i]
            share = float(np.clip(error[i] / (2 * limit), 0, 1))
            text = "fell" if fell[i] else f"{error[i]:.2f}"
            tip = f"vx {told[0]:+.2f} m/s, {name} {told[row]:+.2f} {unit}: error {error[i]:.3f}"
            tip += ", fell" if fell[i] else ""
            css = "cell fell" if fell[i] else "cell"
            axes.box(
                x - half_x * 0.94,
                x + half_x * 0.94,
                y - half_y * 0.94,
                y + half_y * 0.94,
                css,
                tip,
                f"--share:{share:.3f}",
            )
            axes.text(axes.px(x), axes.py(y) + 4, text, "cell-text strong" if share > 0.6 or fell[i] else "cell-text")
    for value in vx:
        axes.text(axes.px(value), axes.height - axes.bottom + 15, number(round(value, 2)))
    for value in other:
        axes.text(axes.left - 6, axes.py(value) + 3.5, number(round(value, 2)), anchor="end")
    axes.text((axes.left + axes.width - axes.right) / 2, axes.height - 4, "commanded vx [m/s]", "label")
    axes.text(11, (axes.top + axes.height - axes.bottom) / 2, f"commanded {name} [{unit}]", "label", turn=True)
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
    axes.grid("joint speed [rad/s]", "joint torque [N m]", y_count=6)
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
    axes = Axes(x=(0.0, float(max(count for _, count in rows))), y=(0.0, float(len(rows))), height=14 + 24 * len(rows),
                left=190, right=60, top=4, bottom=6)  # fmt: skip
    for k, (cause, count) in enumerate(rows):
        row = len(rows) - 1 - k
        axes.box(0.0, count, row + 0.18, row + 0.82, "cause")
        axes.text(axes.left - 8, axes.py(row + 0.5) + 4, cause, anchor="end")
        axes.text(axes.px(count) + 6, axes.py(row + 0.5) + 4, str(count), anchor="start")
    return axes.render("causes of falls")
