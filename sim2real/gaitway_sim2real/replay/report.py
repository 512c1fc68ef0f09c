"""One HTML page about a flight. Needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from gaitway_files.json_files import parse_json
from gaitway_onboard.bundle.contract import OWN_VELOCITY
from gaitway_onboard.flight.reading import Flight

from ..pages.document import document
from ..pages.parts import caption, facts, figure, head, legend, section, table
from . import plots
from .compare import Comparison
from .motion import Motion
from .policy_check import TOLERANCE
from .summary import Summary, command_of_states, ending, incomplete, own_words

DETAIL = 4.0
"""Length of the plots of single joints [s]."""
EVENTS = 200


def render_page(flight: Flight, summary: Summary, motion: Motion | None, against: Comparison | None, film: str) -> str:
    """The whole page; ``film`` is the name of a film beside it, or ""."""
    span = detail(flight, summary)
    sections = [
        _head(flight, summary),
        f'<section><video src="{escape(film)}" controls muted loop></video></section>' if film else "",
        _against(flight, against) if against else "",
        _velocity(flight, summary, motion),
        _estimates(flight, summary, motion),
        _joints(flight, summary, span),
        _health(flight, summary),
        _events(flight),
        _provenance(flight),
    ]
    return document(f"{summary.robot or 'robot'}: flight of {summary.started}", sections)


def detail(flight: Flight, summary: Summary) -> tuple[float, float]:
    """The seconds that the plots of single joints show: before a trip, else the middle of the policy's time."""
    end, policy = flight.seconds, [span for span in summary.modes if span.mode == "policy"]
    if summary.end is not None and summary.end.kind in ("trip", "killed"):
        end = summary.end.time - flight.start + 0.1 * DETAIL
    elif policy:
        end = (policy[-1].start + policy[-1].end + DETAIL) / 2
    return max(0.0, end - DETAIL), min(end, flight.seconds)


def legs(names: Sequence[str]) -> dict[str, list[str]]:
    """Joints by the limb that their names begin with."""
    found: dict[str, list[str]] = {}
    for name in names:
        first, _, rest = name.partition("_")
        key = first if len(first) <= 2 or first in ("left", "right", "waist", "torso") else "body"
        if first in ("left", "right") and rest:
            arm = any(part in rest for part in ("shoulder", "elbow", "wrist"))
            key = f"{first} {'arm' if arm else 'leg'}"
        found.setdefault(key, []).append(name)
    return found


def _head(flight: Flight, summary: Summary) -> str:
    tripped = summary.end is not None and summary.end.kind != "stop"
    lost = ", ".join(f"{count} of {kind}" for kind, count in summary.dropped.items() if count)
    rows = {
        "modes": ", ".join(f"{span.mode} {span.end - span.start:.2f} s" for span in summary.modes),
        "frames": f"{summary.frames}, every {1e3 * summary.frame_gap[0]:.2f} ms, p99 {1e3 * summary.frame_gap[1]:.2f} "
        f"ms, longest {1e3 * summary.frame_gap[2]:.2f} ms",
        "states": f"{summary.states} at {summary.state_rate:.0f} Hz, {summary.corrupt} refused for their checksum",
        "policy": f"{summary.policy_steps} steps, {summary.late} late, {summary.clamped} frames clamped"
        + (f", {summary.clamped_most} most often" if summary.clamped else ""),
        "not recorded": lost or "nothing",
    }
    if summary.tracking is not None:
        rows["tracking"] = (
            f"{summary.tracking[0]:.3f} m/s and {summary.tracking[1]:.3f} rad/s mean error, by {summary.by}"
        )
    for key, peak, unit in (("highest torque", summary.torque, "N m"), ("hottest motor", summary.hottest, "°C")):
        if peak is not None:
            rows[key] = f"{peak.value:.1f} {unit}, {peak.joint} after {peak.time:.2f} s"
    if summary.battery is not None:
        rows["battery"] = f"{100 * summary.battery[0]:.0f} % to {100 * summary.battery[1]:.0f} %"
    missing = incomplete(summary)
    cut = f"<p><b>Incomplete: {escape(missing)}.</b></p>" if missing else ""
    text = f"<p>{summary.seconds:.1f} s. Ended by {escape(ending(summary, flight))}.</p>{cut}\n{facts(rows)}"
    kicker = f"Flight of {summary.started} UTC, {flight.metadata.get('host', '')}"
    return head("fail" if tripped else "plain", kicker, summary.hardware or summary.robot, summary.task, text=text)


def _velocity(flight: Flight, summary: Summary, motion: Motion | None) -> str:
    if motion is None or not len(flight.policy):
        return ""
    yaw = flight.state.gyro[motion.index, 2:].astype(float)
    found = np.concatenate([motion.lin_vel_b[:, :2], yaw], 1)
    time = motion.time - flight.start
    body = plots.velocity(flight, command_of_states(flight), summary.modes, time, found)
    return section(
        "Command and velocity",
        legend(("command", "command"), ("measured", motion.source)),
        figure(body),
        caption("The yaw rate is the gyro's. Bands are modes; lines are trips, stops, clamps and losses."),
    )


def _estimates(flight: Flight, summary: Summary, motion: Motion | None) -> str:
    """What the policy estimates for itself, of signals that no sensor gives."""
    if not flight.estimates:
        return ""
    beside = [("measured", motion.source)] if motion is not None and OWN_VELOCITY in flight.policy else []
    return section(
        "What the policy estimates",
        legend(("command", "the policy's own estimate"), *beside),
        figure(plots.estimates(flight, motion, summary.modes)),
        caption(f"{own_words(summary).capitalize()}.") if summary.own_error is not None else "",
    )


def _joints(flight: Flight, summary: Summary, span: tuple[float, float]) -> str:
    if not len(flight.state) or not len(flight.frame):
        return ""
    parts = []
    for limb, names in legs(flight.joint_names).items():
        parts.append(
            f"<h3>{escape(limb)}</h3>"
            + legend(("command", "target"), ("measured", "position"))
            + figure(plots.joints(flight, names, summary.modes, span))
            + legend(("command", "torque asked: kp (q* − q) − kd q̇"), ("measured", "torque as the drives report it"))
            + figure(plots.torques(flight, names, summary.modes, span))
        )
    return section(f"Joints, {span[0]:.1f} s to {span[1]:.1f} s", *parts)


def _health(flight: Flight, summary: Summary) -> str:
    parts = []
    if len(flight.state):
        parts.append(figure(plots.health(flight, summary.modes)))
    if len(flight.frame) > 2:
        parts.append("<h3>Timing</h3>" + figure(plots.timing(flight)))
    return section("Robot and computer", *parts)


def _events(flight: Flight) -> str:
    shown = flight.events[:EVENTS]
    rows = [[f"{event.time - flight.start:.3f} s", escape(event.kind), escape(event.text)] for event in shown]
    more = caption(f"and {len(flight.events) - EVENTS} more") if len(flight.events) > EVENTS else ""
    return section("Events", table(["", "", ""], rows, css="numbers events", kinds=["", "", ""]), more)


def _against(flight: Flight, found: Comparison) -> str:
    policy, windows, walk = found.policy, found.windows, found.walk
    parts: list[str] = []
    if policy is not None:
        parts += [
            f"<h3>The policy on the recorded signals: {'' if policy.same else 'NOT '}as recorded</h3>",
            f"<p>{escape(policy.text(flight))}.</p>",
            figure(plots.policy_error(flight, policy.error, TOLERANCE)),
        ]
    parts += [
        "<h3>Recorded frames through MuJoCo</h3>",
        f"<p>{escape(windows.text())}.</p>",
        legend(("swing", "how much joints changed"), ("cause", "error of the prediction")),
        '<div class="pair">',
        *(
            figure(plots.window_error(flight, windows, h), f"after {1e3 * windows.horizons[h]:.0f} ms")
            for h in range(2)
        ),
        "</div>",
    ]
    if walk is not None:
        first = next(iter(legs(flight.joint_names).values()))
        parts += [
            "<h3>The same commands, policy in the loop</h3>",
            f"<p>{escape(walk.text(flight))}.</p>",
            legend(("limit", "command"), ("measured", "robot"), ("command", "simulation")),
            figure(plots.beside(flight, walk)),
            figure(plots.beside_joints(flight, walk, first, DETAIL)),
        ]
    else:
        parts.append(f"<p>The policy was not walked in simulation: {escape(found.why_no_walk)}.</p>")
    return section(f"Against {found.bundle}", *parts, _table(flight, found))


def _table(flight: Flight, found: Comparison) -> str:
    columns = {"20 ms [rad]": found.windows.pos_rmse[0], "200 ms [rad]": found.windows.pos_rmse[1]}
    if found.policy is not None:
        columns["target [rad]"] = found.policy.target_rmse
    if found.walk is not None:
        columns["in the loop [rad]"] = found.walk.pos_rmse
    rows = [
        [escape(name), *(f"{values[j]:.4f}" for values in columns.values())]
        for j, name in enumerate(flight.joint_names)
    ]
    text = (
        "Root mean square errors of each joint: predicted position after 20 and 200 ms of recorded frames; targets of "
        "the policy on the recorded signals; position with the policy in the loop."
    )
    return table(["", *columns], rows) + caption(text)


def _provenance(flight: Flight) -> str:
    rows = {key: _short(value) for key, value in sorted(flight.metadata.items()) if value}
    return section("Where it comes from", facts(rows, code=True))


def _short(value: str) -> str:
    try:
        found = parse_json(value, "metadata", nan=True)
    except ValueError:
        return value
    if isinstance(found, dict):
        return ", ".join(f"{key} {item}" for key, item in found.items())
    return ", ".join(map(str, found)) if isinstance(found, list) else value
