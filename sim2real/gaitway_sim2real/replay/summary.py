"""A flight in numbers: how long, in which modes, why it ended, what was clamped, late or lost."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.json_files import parse_json
from gaitway_files.reading import NAME, FileError, check_texts
from gaitway_onboard.bundle.parts import OWN_VELOCITY
from gaitway_onboard.flight.reading import Event, Flight

CLAMPED = 1e-9
"""Change of a target that counts as a clamp [rad]."""
POLICY = "policy"


class ReplayError(UserError):
    """A flight that cannot be replayed as asked, with the reason and the fix."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """A stretch of one mode; times are seconds since the start of the flight."""

    mode: str
    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class Peak:
    """An extreme value, which joint had it and when [s] since the start of the flight."""

    value: float
    joint: str
    time: float


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Summary computed from a flight; times are since its start [s]."""

    flight: Flight
    started: str
    """UTC."""
    modes: tuple[Span, ...]
    end: Event | None
    """The last trip or stop; its time is the robot's clock."""
    state_rate: float
    """[Hz], median"""
    frame_gap: tuple[float, float, float]
    """Time between two frames: median, 99th percentile, longest [s]."""
    late: int
    """Policy steps that came too late."""
    clamped: int
    """Frames in which a target was clamped while the policy was in charge."""
    clamped_most: str
    """Joint whose target was clamped most often; empty without a clamp."""
    corrupt: int
    """States that the transport refused because of their checksum."""
    tracking: tuple[float, float] | None
    """Mean error of linear velocity [m/s] and of yaw rate [rad/s] while the policy was in charge, by ``by``."""
    own_error: tuple[float, float, float] | None
    """Root mean square of the velocity that the policy estimated for itself less the recorded one [m/s]: x, y, z."""
    torque: Peak | None
    """Largest that the drives reported [N m]."""
    hottest: Peak | None
    """[degrees C]"""
    battery: tuple[float, float] | None
    """State of charge at start and end, of 1."""

    @property
    def by(self) -> str:
        """Source of the recorded velocity."""
        return "the estimate" if self.flight.hardware else "the simulation"


def spans(flight: Flight) -> tuple[Span, ...]:
    """The modes in order, from the frames."""
    frame = flight.frame
    if not len(frame):
        return ()
    time, mode = frame.time - flight.start, frame.mode
    edges = [0, *(np.flatnonzero(mode[1:] != mode[:-1]) + 1).tolist(), len(mode)]
    return tuple(
        Span(mode=str(mode[a]), start=float(time[a]), end=float(time[min(b, len(mode) - 1)]))
        for a, b in itertools.pairwise(edges)
    )


def summarise(flight: Flight) -> Summary:
    state, frame = flight.state, flight.frame
    gaps = np.diff(frame.time) if len(frame) > 1 else np.zeros(1)
    clamped = np.zeros((0, 0), bool)
    if len(frame):
        clamped = (np.abs(frame.asked - frame.targets) > CLAMPED)[frame.mode == POLICY]
    most = clamped.sum(0) if clamped.size else np.zeros(1)
    begun = datetime.fromtimestamp(int(flight.metadata["start_ns"]) / 1e9, tz=UTC)
    battery = state.battery[flight.has("battery")] if len(state) else np.zeros(0)
    return Summary(
        flight=flight,
        started=begun.strftime("%Y-%m-%d %H:%M:%S"),
        modes=spans(flight),
        end=next((event for event in reversed(flight.events) if event.kind in ("trip", "stop", "killed")), None),
        state_rate=1.0 / float(np.median(np.diff(state.time))) if len(state) > 1 else 0.0,
        frame_gap=(float(np.median(gaps)), float(np.percentile(gaps, 99)), float(gaps.max())),
        late=int(flight.policy.late.sum()) if len(flight.policy) else 0,
        clamped=int(clamped.any(1).sum()) if clamped.size else 0,
        clamped_most=flight.joint_names[int(most.argmax())] if most.any() else "",
        corrupt=int(state.corrupt[-1]) if len(state) else 0,
        tracking=tracking(flight),
        own_error=own_error(flight),
        torque=_peak(flight, "joint_torque"),
        hottest=_peak(flight, "motor_temperature"),
        battery=(float(battery[0]), float(battery[-1])) if len(battery) else None,
    )


def command_of_states(flight: Flight) -> np.ndarray:
    """The command in force at each state, (N, D); NaN where the policy was not in charge."""
    width = flight.policy.command.shape[1] if len(flight.policy) else 3
    found = np.full((len(flight.state), width), np.nan)
    if len(flight.policy) and len(flight.frame):
        step = np.searchsorted(flight.policy.time, flight.state.time, side="right") - 1
        mode = np.searchsorted(flight.frame.time, flight.state.time, side="right") - 1
        chosen = (step >= 0) & (mode >= 0) & (flight.frame.mode[np.maximum(mode, 0)] == POLICY)
        found[chosen] = flight.policy.command[step[chosen]]
    return found


def tracking(flight: Flight) -> tuple[float, float] | None:
    if "base_lin_vel" not in flight.state or not flight.follows_velocity:
        return None
    command = command_of_states(flight)
    chosen = np.isfinite(command[:, 0]) & flight.has("base_lin_vel")
    if not chosen.any():
        return None
    linear = np.linalg.norm(flight.state.base_lin_vel[chosen, :2] - command[chosen, :2], axis=1)
    yaw = np.abs(flight.state.gyro[chosen, 2] - command[chosen, 2])
    return float(linear.mean()), float(yaw.mean())


def own_velocity(flight: Flight) -> np.ndarray | None:
    """Velocity of the base, as the policy estimated it at the newest step before each state [m/s], (N, 3).

    NaN before the first step; None for a policy that does not estimate it.
    """
    if OWN_VELOCITY not in flight.policy:
        return None
    step = np.searchsorted(flight.policy.time, flight.state.time, side="right") - 1
    return np.where((step >= 0)[:, None], flight.policy.values[OWN_VELOCITY][np.maximum(step, 0)], np.nan)


def own_error(flight: Flight) -> tuple[float, float, float] | None:
    if OWN_VELOCITY not in flight.policy or "base_lin_vel" not in flight.state:
        return None
    state = np.searchsorted(flight.state.time, flight.policy.time, side="right") - 1
    known = (state >= 0) & flight.has("base_lin_vel")[np.maximum(state, 0)]
    if not known.any():
        return None
    error = flight.policy.values[OWN_VELOCITY][known] - flight.state.base_lin_vel[state[known]]
    x, y, z = np.sqrt((error.astype(float) ** 2).mean(0)).tolist()
    return x, y, z


def _peak(flight: Flight, name: str) -> Peak | None:
    if name not in flight.state or not (chosen := flight.has(name)).any():
        return None
    values = np.abs(np.nan_to_num(flight.state.values[name][chosen].astype(float)))
    row, joint = np.unravel_index(int(values.argmax()), values.shape)
    time = float(flight.state.time[chosen][row]) - flight.start
    return Peak(value=float(values[row, joint]), joint=flight.joint_names[joint], time=time)


def text(summary: Summary) -> str:
    """Summary as text for a terminal."""
    flight = summary.flight
    hardware = f" on {flight.hardware}" if flight.hardware else ""
    try:
        software = dict(check_texts(parse_json(flight.metadata.get("software", "{}"), "software"), "software", NAME))
    except (FileError, TypeError, ValueError):  # of another program
        software = {}
    lines = [
        f"{flight.path}: {flight.metadata.get('task') or 'no task'}, {flight.robot or 'unknown robot'}{hardware}, "
        f"{summary.started} UTC, gaitway {software.get('gaitway', '?')}",
        f"{flight.seconds:.2f} s, ended: {ending(summary)}",
        *(f"{name}: {said}" for name, said in facts(summary).items()),
    ]
    if summary.own_error is not None:
        lines.append(own_words(summary))
    if missing := incomplete(flight):
        lines.append(f"INCOMPLETE: {missing}")
    return "\n  ".join(lines)


def facts(summary: Summary) -> dict[str, str]:
    """Facts about the recording, for a terminal and a page."""
    flight, gap = summary.flight, [f"{1e3 * seconds:.2f} ms" for seconds in summary.frame_gap]
    found = {
        "modes": ", ".join(f"{span.mode} {span.end - span.start:.2f} s" for span in summary.modes) or "none",
        "frames": f"{len(flight.frame)}, every {gap[0]}, p99 {gap[1]}, longest {gap[2]}",
        "states": f"{len(flight.state)} at {summary.state_rate:.0f} Hz, {summary.corrupt} refused for their checksum",
        "policy": f"{len(flight.policy)} steps, {summary.late} late, {summary.clamped} frames clamped"
        + (f", {summary.clamped_most} most often" if summary.clamped else ""),
        "not recorded": ", ".join(f"{count} of {kind}" for kind, count in flight.dropped.items() if count) or "nothing",
    }
    if summary.tracking is not None:
        linear, yaw = summary.tracking
        found["tracking"] = f"{linear:.3f} m/s and {yaw:.3f} rad/s mean error, by {summary.by}"
    for name, peak, unit in (("highest torque", summary.torque, "N m"), ("hottest motor", summary.hottest, "°C")):
        if peak is not None:
            found[name] = f"{peak.value:.1f} {unit}, {peak.joint} after {peak.time:.2f} s"
    if summary.battery is not None:
        found["battery"] = " to ".join(f"{100 * charge:.0f} %" for charge in summary.battery)
    return found


def own_words(summary: Summary) -> str:
    """Error of the policy's own velocity estimate against the recorded one, in words."""
    assert summary.own_error is not None
    x, y, z = summary.own_error
    return f"velocity as the policy estimates it, against {summary.by}: {x:.3f}, {y:.3f}, {z:.3f} m/s rms (x, y, z)"


def incomplete(flight: Flight) -> str:
    """Warning about a file that lacks part of its flight; empty if it is complete."""
    if flight.trouble:
        return f"{flight.trouble}; it has {flight.recorded:.2f} s of {flight.seconds:.2f} s"
    if flight.truncated:
        return (
            "the file was not finished, or is damaged: this is what can be read of it, "
            f"{flight.recorded:.2f} s; how much is missing is not known"
        )
    return ""


def ending(summary: Summary) -> str:
    if summary.end is None:
        return "no reason was recorded; the flight just stops"
    return f"{summary.end.kind} after {summary.end.time - summary.flight.start:.2f} s, {summary.end.text}"
