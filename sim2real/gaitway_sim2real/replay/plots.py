"""The report's plots, as inline SVG. Times are seconds since the start of the flight."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from gaitway_onboard.flight.reading import Event, Flight
from gaitway_onboard.rotation import tilt_of

from ..pages.svg import COMPONENTS, Axes
from .closed_loop import ClosedLoop
from .open_loop import OpenLoop
from .summary import Span

POINTS = 1200
"""A line has at most about this many points: of each stretch the lowest and the highest, so that no peak is lost."""
MODE_CSS = {"policy": "mode policy", "settle": "mode policy", "damp": "mode damp"}
MARKED = ("trip", "stop", "killed", "drop", "clamp")


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


class Panel:
    """Axes over the whole flight, or a part of it, with modes as bands and events as lines."""

    def __init__(
        self,
        span: tuple[float, float],
        values: Sequence[np.ndarray],
        label: str,
        *,
        last: bool = False,
        modes: Sequence[Span] = (),
        events: Sequence[tuple[float, Event]] = (),
        zero: bool = False,
    ):
        """``zero`` keeps zero in the picture; modes and events are drawn with their names above the first panel."""
        finite = [v[np.isfinite(v)] for v in values]
        low = min((float(v.min()) for v in finite if len(v)), default=0.0)
        high = max((float(v.max()) for v in finite if len(v)), default=1.0)
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        pad = 0.08 * max(high - low, 0.1 * abs(high), 1e-3)
        end = span[1] if span[1] > span[0] else span[0] + 1.0
        self.axes = Axes(
            x=(span[0], end), y=(low - pad, high + pad), height=136 if last else 112, bottom=40 if last else 18
        )
        self.label = label
        for mode in modes:
            if mode.end > span[0] and mode.start < end:
                bounds = max(mode.start, span[0]), min(mode.end, end)
                self.axes.box(*bounds, *self.axes.y, MODE_CSS.get(mode.mode, "mode"), mode.mode)
        self.axes.grid("time [s]" if last else "", label)
        for time, event in events:
            if span[0] <= time <= end:
                self.axes.box(time, time, *self.axes.y, f"event {event.kind}", f"{event.kind}: {event.text}")

    def line(self, time: np.ndarray, values: np.ndarray, css: str) -> None:
        self.axes.line(*thin(time, values.astype(float)), css)

    def render(self) -> str:
        return self.axes.render(self.label)


def marks(flight: Flight) -> list[tuple[float, Event]]:
    return [(event.time - flight.start, event) for event in flight.events if event.kind in MARKED]


def velocity(flight: Flight, command: np.ndarray, modes: Sequence[Span], time: np.ndarray, found: np.ndarray) -> str:
    """Commands at each state (N, 3) and velocities ``found`` at ``time``, (T,) and (T, 3)."""
    states = flight.state.time - flight.start
    span, panels = (0.0, flight.seconds), []
    for k, (name, unit) in enumerate(COMPONENTS):
        panel = Panel(
            span, [command[:, k], found[:, k]], f"{name} [{unit}]", last=k == 2, modes=modes, events=marks(flight)
        )
        panel.line(time, found[:, k], "measured")
        panel.line(states, command[:, k], "command")
        panels.append(panel.render())
    return "".join(panels)


def joints(flight: Flight, names: Sequence[str], modes: Sequence[Span], span: tuple[float, float]) -> str:
    """Positions against targets, one panel per joint."""
    state, frame, panels = flight.state, flight.frame, []
    states, frames = state.time - flight.start, frame.time - flight.start
    inside, sent = (states >= span[0]) & (states <= span[1]), (frames >= span[0]) & (frames <= span[1])
    for row, name in enumerate(names):
        j = flight.joint_names.index(name)
        targets = np.where(frame.stiffness[:, j] > 0.0, frame.targets[:, j], np.nan)[sent]
        measured = state.joint_pos[inside, j]
        panel = Panel(
            span, [targets, measured], f"{name} [rad]", last=row == len(names) - 1, modes=modes, events=marks(flight)
        )
        panel.line(frames[sent], targets, "command")
        panel.line(states[inside], measured, "measured")
        panels.append(panel.render())
    return "".join(panels)


def torques(flight: Flight, names: Sequence[str], modes: Sequence[Span], span: tuple[float, float]) -> str:
    """What the commands asked of the drives, kp (q* - q) - kd qd, and what the drives said they exerted."""
    state, panels = flight.state, []
    states = state.time - flight.start
    inside = np.flatnonzero((states >= span[0]) & (states <= span[1]))
    asked = asked_torque(flight)[inside]
    for row, name in enumerate(names):
        j = flight.joint_names.index(name)
        lines = [asked[:, j]]
        if "joint_torque" in state:
            lines.append(state.joint_torque[inside, j].astype(float))
        panel = Panel(
            span, lines, f"{name} [N m]", last=row == len(names) - 1, modes=modes, events=marks(flight), zero=True
        )
        for line, css in zip(lines, ("command", "measured"), strict=False):
            panel.line(states[inside], line, css)
        panels.append(panel.render())
    return "".join(panels)


def asked_torque(flight: Flight) -> np.ndarray:
    """At each state, by the frame in force [N m], (N, J); NaN before the first frame."""
    state, frame = flight.state, flight.frame
    found = np.full(state.joint_pos.shape, np.nan)
    row = np.searchsorted(frame.time, state.time, side="right") - 1
    good = row >= 0
    kp, kd, targets = (values[row[good]] for values in (frame.stiffness, frame.damping, frame.targets))
    error = np.where(kp > 0.0, targets - state.joint_pos[good], 0.0)
    found[good] = kp * error - kd * state.joint_vel[good]
    return found


def health(flight: Flight, modes: Sequence[Span]) -> str:
    """Hottest motor, battery and tilt over the flight, as far as they were recorded."""
    state, time = flight.state, flight.state.time - flight.start
    rows = [("tilt [rad]", tilt_of(state.imu_quat_wxyz.astype(float)))]
    if "motor_temperature" in state:
        rows.append(
            ("hottest motor [C]", np.where(flight.has("motor_temperature"), state.motor_temperature.max(1), np.nan))
        )
    if flight.has("battery").any():
        rows.append(("battery [%]", np.where(flight.has("battery"), 100.0 * state.battery, np.nan)))
    panels = []
    for k, (label, values) in enumerate(rows):
        panel = Panel(
            (0.0, flight.seconds), [values], label, last=k == len(rows) - 1, modes=modes, events=marks(flight)
        )
        panel.line(time, values, "measured")
        panels.append(panel.render())
    return "".join(panels)


def timing(flight: Flight) -> str:
    """How far apart frames were, as a histogram with a logarithmic count."""
    gaps = 1e3 * np.diff(flight.frame.time)
    usual = float(np.median(gaps))
    counts, edges = np.histogram(np.clip(gaps, 0.0, 3.0 * usual), bins=60, range=(0.0, 3.0 * usual))
    height = np.log10(1.0 + counts)
    axes = Axes(x=(0.0, 3.0 * usual), y=(0.0, 1.1 * float(height.max())), height=150, bottom=40)
    axes.grid("time between two frames [ms]; the last bar has all that are longer", "frames", y_count=0)
    for count, value, a, b in zip(counts, height, edges[:-1], edges[1:], strict=True):
        if count:
            axes.box(a, b, 0.0, value, "stance", f"{count} of {len(gaps)} between {a:.2f} and {b:.2f} ms")
    return axes.render("time between two frames")


def beside(flight: Flight, run: ClosedLoop) -> str:
    """Velocities of the robot and of the simulation under the same commands."""
    time, panels = run.time - flight.start, []
    span = float(time[0]), float(time[-1])
    for k, (name, unit) in enumerate(COMPONENTS):
        values = [run.command[:, k], run.robot_vel[:, k], run.sim_vel[:, k]]
        panel = Panel(span, values, f"{name} [{unit}]", last=k == 2)
        for line, css in zip(values, ("limit", "measured", "command"), strict=True):
            panel.line(time, line, css)
        panels.append(panel.render())
    return "".join(panels)


def beside_joints(flight: Flight, run: ClosedLoop, names: Sequence[str], seconds: float) -> str:
    """Joint positions of both for some seconds in the middle."""
    time = run.time - flight.start
    middle = (time[0] + time[-1]) / 2
    inside = (time >= middle - seconds / 2) & (time <= middle + seconds / 2)
    span, panels = (float(time[inside][0]), float(time[inside][-1])), []
    for row, name in enumerate(names):
        j = flight.joint_names.index(name)
        values = [run.robot_pos[inside, j], run.sim_pos[inside, j]]
        panel = Panel(span, values, f"{name} [rad]", last=row == len(names) - 1)
        for line, css in zip(values, ("measured", "command"), strict=True):
            panel.line(time[inside], line, css)
        panels.append(panel.render())
    return "".join(panels)


def policy_error(flight: Flight, error: np.ndarray, limit: float) -> str:
    """Largest difference of an action per policy step, logarithmic."""
    time = flight.policy.time - flight.start
    values = np.log10(np.maximum(error, 1e-9))
    panel = Panel((float(time[0]), float(time[-1])), [values, np.array([np.log10(limit)])], "log10 error", last=True)
    panel.line(time, values, "measured")
    panel.line(time[[0, -1]], np.full(2, np.log10(limit)), "limit")
    return panel.render()


def window_error(flight: Flight, windows: OpenLoop, horizon: int) -> str:
    """Error of each joint's velocity beside how much it really changed, as bars."""
    names = flight.joint_names
    high = 1.08 * float(max(windows.vel_moved[horizon].max(), windows.vel_rmse[horizon].max(), 1e-6))
    axes = Axes(x=(0.0, high), y=(0.0, float(len(names))), height=52 + 17 * len(names), left=190, right=16, bottom=40)
    axes.grid("joint velocity [rad/s], RMS", y_count=0)
    axes.items = [item for item in axes.items if 'class="grid"' not in item and 'text-anchor="end"' not in item]
    for j, name in enumerate(names):
        row = len(names) - 1 - j
        moved, error = windows.vel_moved[horizon, j], windows.vel_rmse[horizon, j]
        axes.box(0.0, moved, row + 0.12, row + 0.88, "swing", f"{name} changed by {moved:.3f} rad/s")
        axes.box(0.0, error, row + 0.3, row + 0.7, "cause", f"{name} is predicted {error:.3f} rad/s off")
        axes.text(axes.left - 8, axes.py(row + 0.5) + 4, name, anchor="end")
    return axes.render(f"prediction error after {windows.horizons[horizon]:g} s")
