"""The report's plots, as inline SVG. Times are seconds since the start of the flight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gaitway_onboard.bundle.contract import ESTIMATE, OWN_VELOCITY
from gaitway_onboard.flight.reading import Flight
from gaitway_onboard.rotation import tilt_of

from ..pages.panels import Line, Mark, stacked, velocity_rows
from ..pages.svg import Axes
from .closed_loop import ClosedLoop
from .motion import Motion
from .open_loop import OpenLoop
from .summary import Span

MODE_CSS = {"policy": "mode policy", "settle": "mode policy", "damp": "mode damp"}
MOST_PANELS = 12
"""Numbers of one estimate that are drawn."""
MARKED = ("trip", "stop", "killed", "drop", "clamp")


def _panels(
    flight: Flight,
    rows: Sequence[tuple[str, Sequence[Line]]],
    modes: Sequence[Span],
    span: tuple[float, float] | None = None,
    *,
    zero: bool = False,
) -> str:
    """Panels over the whole flight, or a part of it, with modes as bands and events as lines."""
    bands = [(mode.start, mode.end, MODE_CSS.get(mode.mode, "mode"), mode.mode) for mode in modes]
    events: list[Mark] = []
    for event in flight.events:
        if event.kind in MARKED:
            at = event.time - flight.start
            events.append((at, at, f"event {event.kind}", f"{event.kind}: {event.text}"))
    return stacked(rows, span or (0.0, flight.seconds), bands=bands, events=events, zero=zero)


def velocity(flight: Flight, command: np.ndarray, modes: Sequence[Span], time: np.ndarray, found: np.ndarray) -> str:
    """Commands at each state (N, 3) and velocities ``found`` at ``time``, (T,) and (T, 3)."""
    states = flight.state.time - flight.start
    measured, commanded = velocity_rows(time, measured=found), velocity_rows(states, command=command)
    rows = [(label, [*lines, *more]) for (label, lines), (_, more) in zip(measured, commanded, strict=True)]
    return _panels(flight, rows, modes)


def estimates(flight: Flight, motion: Motion | None, modes: Sequence[Span]) -> str:
    """What the policy estimates for itself, and beside it what else is known of the base's velocity."""
    units = {} if flight.contract is None else {signal.name: signal.unit for signal in flight.contract.outputs}
    rows = []
    for name in flight.estimates:
        values = flight.policy.values[name]
        for k in range(min(values.shape[1], MOST_PANELS)):
            axis = "xyz"[k] if values.shape[1] == 3 else str(k)
            lines = [(flight.policy.time - flight.start, values[:, k], "command")]
            if name == OWN_VELOCITY and motion is not None:
                lines.insert(0, (motion.time - flight.start, motion.lin_vel_b[:, k], "measured"))
            rows.append((f"{name.removeprefix(ESTIMATE)} {axis} [{units.get(name, '')}]", lines))
    return _panels(flight, rows, modes)


def joints(flight: Flight, names: Sequence[str], modes: Sequence[Span], span: tuple[float, float]) -> str:
    """Positions against targets, one panel per joint."""
    state, frame = flight.state, flight.frame
    states, frames = state.time - flight.start, frame.time - flight.start
    inside, sent = (states >= span[0]) & (states <= span[1]), (frames >= span[0]) & (frames <= span[1])
    rows = []
    for name in names:
        j = flight.joint_names.index(name)
        targets = np.where(frame.stiffness[:, j] > 0.0, frame.targets[:, j], np.nan)[sent]
        measured = (states[inside], state.joint_pos[inside, j], "measured")
        rows.append((f"{name} [rad]", [(frames[sent], targets, "command"), measured]))
    return _panels(flight, rows, modes, span)


def torques(flight: Flight, names: Sequence[str], modes: Sequence[Span], span: tuple[float, float]) -> str:
    """What the commands asked of the drives, kp (q* - q) - kd qd, and what the drives said they exerted."""
    state, states = flight.state, flight.state.time - flight.start
    inside = np.flatnonzero((states >= span[0]) & (states <= span[1]))
    series = {"command": asked_torque(flight)}
    if "joint_torque" in state:
        series["measured"] = state.joint_torque
    rows = []
    for name in names:
        j = flight.joint_names.index(name)
        rows.append((f"{name} [N m]", [(states[inside], values[inside, j], css) for css, values in series.items()]))
    return _panels(flight, rows, modes, span, zero=True)


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
    series = {"tilt [rad]": tilt_of(state.imu_quat_wxyz.astype(float))}
    if "motor_temperature" in state:
        hottest = state.motor_temperature.max(1)
        series["hottest motor [C]"] = np.where(flight.has("motor_temperature"), hottest, np.nan)
    if flight.has("battery").any():
        series["battery [%]"] = np.where(flight.has("battery"), 100.0 * state.battery, np.nan)
    return _panels(flight, [(label, [(time, values, "measured")]) for label, values in series.items()], modes)


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
    time = run.time - flight.start
    rows = velocity_rows(time, limit=run.command, measured=run.robot_vel, command=run.sim_vel)
    return stacked(rows, (float(time[0]), float(time[-1])))


def beside_joints(flight: Flight, run: ClosedLoop, names: Sequence[str], seconds: float) -> str:
    """Joint positions of both for some seconds in the middle."""
    time = run.time - flight.start
    middle = (time[0] + time[-1]) / 2
    inside = (time >= middle - seconds / 2) & (time <= middle + seconds / 2)
    chosen, rows = time[inside], []
    for name in names:
        j = flight.joint_names.index(name)
        both = (run.robot_pos, "measured"), (run.sim_pos, "command")
        rows.append((f"{name} [rad]", [(chosen, values[inside, j], css) for values, css in both]))
    return stacked(rows, (float(chosen[0]), float(chosen[-1])))


def policy_error(flight: Flight, error: np.ndarray, limit: float) -> str:
    """Largest difference of an action per policy step, logarithmic."""
    time = flight.policy.time - flight.start
    lines = [
        (time, np.log10(np.maximum(error, 1e-9)), "measured"),
        (time[[0, -1]], np.full(2, np.log10(limit)), "limit"),
    ]
    return stacked([("log10 error", lines)], (float(time[0]), float(time[-1])))


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
