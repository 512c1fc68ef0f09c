"""The report's plots. Times are seconds since the start of the flight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from gaitway_onboard.bundle.parts import ESTIMATE, OWN_VELOCITY
from gaitway_onboard.flight.reading import Flight
from gaitway_onboard.rotation import tilt_of

from ..pages.model import Figure
from ..pages.panels import Line, Mark, stacked, velocity_rows
from ..pages.svg import Axes
from .closed_loop import ClosedLoop
from .motion import Motion
from .open_loop import OpenLoop
from .summary import Span, command_of_states

MODE_CSS = {"policy": "mode policy", "settle": "mode policy", "damp": "mode damp"}
MOST_PANELS = 12
"""Numbers of one estimate that are drawn."""
MARKED = ("trip", "stop", "killed", "drop", "clamp")
Rows = Sequence[tuple[str, Sequence[Line]]]
Legend = Sequence[tuple[str, str]]


def _panels(
    flight: Flight,
    rows: Rows,
    modes: Sequence[Span],
    legend: Legend = (),
    span: tuple[float, float] | None = None,
    *,
    zero: bool = False,
) -> Figure:
    """Panels over the whole flight, or a part of it, with modes as bands and events as lines."""
    bands = [(mode.start, mode.end, MODE_CSS.get(mode.mode, "mode"), mode.mode) for mode in modes]
    events: list[Mark] = []
    for event in flight.events:
        if event.kind in MARKED:
            at = event.time - flight.start
            events.append((at, at, f"event {event.kind}", f"{event.kind}: {event.text}"))
    return stacked(rows, span or (0.0, flight.seconds), legend=legend, bands=bands, events=events, zero=zero)


def velocity(flight: Flight, modes: Sequence[Span], motion: Motion) -> Figure:
    """Commands, and the velocity of ``motion`` with the gyro's yaw rate."""
    yaw = flight.state.gyro[motion.index, 2:].astype(float)
    found = np.concatenate([motion.lin_vel_b[:, :2], yaw], 1)
    measured = velocity_rows(motion.time - flight.start, measured=found)
    commanded = velocity_rows(flight.state.time - flight.start, command=command_of_states(flight))
    rows = [(label, [*lines, *more]) for (label, lines), (_, more) in zip(measured, commanded, strict=True)]
    return _panels(flight, rows, modes, [("command", "command"), ("measured", motion.source)])


def estimates(flight: Flight, motion: Motion | None, modes: Sequence[Span]) -> Figure:
    """Plot of the policy's own estimates beside other estimates of the base velocity."""
    units = {} if flight.contract is None else {signal.name: signal.unit for signal in flight.contract.outputs}
    rows, legend = [], [("command", "the policy's own estimate")]
    if motion is not None and OWN_VELOCITY in flight.policy:
        legend.append(("measured", motion.source))
    for name in flight.estimates:
        values = flight.policy.values[name]
        for k in range(min(values.shape[1], MOST_PANELS)):
            axis = "xyz"[k] if values.shape[1] == 3 else str(k)
            lines = [(flight.policy.time - flight.start, values[:, k], "command")]
            if name == OWN_VELOCITY and motion is not None:
                lines.insert(0, (motion.time - flight.start, motion.lin_vel_b[:, k], "measured"))
            rows.append((f"{name.removeprefix(ESTIMATE)} {axis} [{units.get(name, '')}]", lines))
    return _panels(flight, rows, modes, legend)


def joint_rows(
    flight: Flight,
    names: Sequence[str],
    unit: str,
    span: tuple[float, float],
    series: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> Rows:
    """A row for each joint of what lies in ``span`` [s]: times since the start and values (T, J), by CSS class."""
    cut = []
    for css, (time, values) in series.items():
        inside = (time >= span[0]) & (time <= span[1])
        cut.append((css, time[inside], values[inside]))
    return [
        (f"{name} [{unit}]", [(time, values[:, flight.joint_names.index(name)], css) for css, time, values in cut])
        for name in names
    ]


def joints(flight: Flight, names: Sequence[str], modes: Sequence[Span], span: tuple[float, float]) -> Figure:
    """Positions against targets, one panel per joint."""
    state, frame = flight.state, flight.frame
    targets = np.where(frame.stiffness > 0.0, frame.targets, np.nan)
    series = {"command": (frame.time - flight.start, targets), "measured": (state.time - flight.start, state.joint_pos)}
    rows = joint_rows(flight, names, "rad", span, series)
    return _panels(flight, rows, modes, [("command", "target"), ("measured", "position")], span)


def torques(flight: Flight, names: Sequence[str], modes: Sequence[Span], span: tuple[float, float]) -> Figure:
    """Plot of the commanded torques, kp (q* - q) - kd qd, and the torques that the drives reported."""
    time = flight.state.time - flight.start
    series = {"command": (time, asked_torque(flight))}
    if "joint_torque" in flight.state:
        series["measured"] = (time, flight.state.joint_torque)
    legend = ("command", "torque asked: kp (q* − q) − kd q̇"), ("measured", "torque as the drives report it")
    return _panels(flight, joint_rows(flight, names, "N m", span, series), modes, legend, span, zero=True)


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


def health(flight: Flight, modes: Sequence[Span]) -> Figure:
    """Hottest motor, battery and tilt over the flight, as far as they were recorded."""
    state, time = flight.state, flight.state.time - flight.start
    series = {"tilt [rad]": tilt_of(state.imu_quat_wxyz.astype(float))}
    if "motor_temperature" in state:
        hottest = state.motor_temperature.max(1)
        series["hottest motor [C]"] = np.where(flight.has("motor_temperature"), hottest, np.nan)
    if flight.has("battery").any():
        series["battery [%]"] = np.where(flight.has("battery"), 100.0 * state.battery, np.nan)
    return _panels(flight, [(label, [(time, values, "measured")]) for label, values in series.items()], modes)


def timing(flight: Flight) -> Figure:
    """Histogram of the time between frames, with a logarithmic count."""
    gaps = 1e3 * np.diff(flight.frame.time)
    usual = float(np.median(gaps))
    counts, edges = np.histogram(np.clip(gaps, 0.0, 3.0 * usual), bins=60, range=(0.0, 3.0 * usual))
    height = np.log10(1.0 + counts)
    axes = Axes(x=(0.0, 3.0 * usual), y=(0.0, 1.1 * float(height.max())), height=150, bottom=40)
    decades = range(1, int(axes.y[1]) + 1)
    axes.grid(
        "time between two frames [ms]; the last bar has all that are longer",
        "frames",
        y=decades,
        said=lambda decade: f"{10**decade:g}",
    )
    for count, value, a, b in zip(counts, height, edges[:-1], edges[1:], strict=True):
        if count:
            axes.box(a, b, 0.0, value, "stance", f"{count} of {len(gaps)} between {a:.2f} and {b:.2f} ms")
    return Figure(axes.render("time between two frames"))


def beside(flight: Flight, run: ClosedLoop, names: Sequence[str], seconds: float) -> list[Figure]:
    """Velocities of the robot and of the simulation under the same commands, and joints for some seconds."""
    time = run.time - flight.start
    rows = velocity_rows(time, limit=run.command, measured=run.robot_vel, command=run.sim_vel)
    middle = float(time[0] + time[-1]) / 2
    span = middle - seconds / 2, middle + seconds / 2
    pose = joint_rows(flight, names, "rad", span, {"measured": (time, run.robot_pos), "command": (time, run.sim_pos)})
    legend = ("limit", "command"), ("measured", "robot"), ("command", "simulation")
    return [stacked(rows, legend=legend), stacked(pose)]


def policy_error(flight: Flight, error: np.ndarray, limit: float) -> Figure:
    """Largest difference of an action per policy step, logarithmic."""
    time = flight.policy.time - flight.start
    lines = [
        (time, np.log10(np.maximum(error, 1e-9)), "measured"),
        (time[[0, -1]], np.full(2, np.log10(limit)), "limit"),
    ]
    return stacked([("log10 error", lines)])


def window_error(flight: Flight, windows: OpenLoop, horizon: int) -> Figure:
    """Error of each joint's velocity beside how much it really changed, as bars."""
    names, both = flight.joint_names, (windows.vel_moved[horizon], windows.vel_rmse[horizon])
    high = 1.08 * max(float(np.max(both)), 1e-6)
    axes = Axes(x=(0.0, high), y=(float(len(names)), 0.0), height=52 + 17 * len(names), left=190, right=16, bottom=40)
    axes.grid("joint velocity [rad/s], RMS", y=())
    for j, (name, moved, error) in enumerate(zip(names, *both, strict=True)):
        axes.box(0.0, moved, j + 0.12, j + 0.88, "swing", f"{name} changed by {moved:.3f} rad/s")
        axes.box(0.0, error, j + 0.3, j + 0.7, "cause", f"{name} is predicted {error:.3f} rad/s off")
        axes.name(j + 0.5, name)
    after = windows.horizons[horizon]
    return Figure(axes.render(f"prediction error after {after:g} s"), f"after {1e3 * after:.0f} ms")
