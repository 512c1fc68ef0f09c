"""One HTML page about a flight. Needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gaitway_files.json_files import parse_json
from gaitway_onboard.flight.reading import Flight

from ..pages import media
from ..pages.model import Figure, Group, Head, Report, Section, Table, bold, heading, note
from . import plots
from .compare import Comparison
from .motion import Motion
from .policy_check import TOLERANCE
from .summary import Summary, ending, facts, incomplete, own_words

DETAIL = 4.0
"""Length of the plots of single joints [s]."""
EVENTS = 200


def report(summary: Summary, motion: Motion | None, against: Comparison | None, film: str) -> Report:
    """The whole page; ``film`` is the name of a film beside it, or ""."""
    flight = summary.flight
    return Report(
        f"{flight.robot or 'robot'}: flight of {summary.started}",
        _head(summary),
        Section("", Figure(media.film(film))) if film else None,
        _against(flight, against) if against else None,
        _velocity(summary, motion),
        _estimates(summary, motion),
        _joints(flight, summary),
        _health(flight, summary),
        _events(flight),
        Section("Where it comes from", {key: _short(value) for key, value in sorted(flight.metadata.items()) if value}),
    )


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


def _head(summary: Summary) -> Head:
    flight = summary.flight
    tripped = summary.end is not None and summary.end.kind != "stop"
    missing = incomplete(flight)
    return Head(
        f"Flight of {summary.started} UTC",
        flight.hardware or flight.robot,
        flight.metadata.get("task", ""),
        f"{flight.seconds:.1f} s. Ended by {ending(summary)}.",
        bold(f"Incomplete: {missing}.") if missing else None,
        facts(summary),
        css="fail" if tripped else "plain",
    )


def _velocity(summary: Summary, motion: Motion | None) -> Section | None:
    flight = summary.flight
    if motion is None or not len(flight.policy) or not flight.follows_velocity:
        return None
    text = "The yaw rate is the gyro's. Bands are modes; lines are trips, stops, clamps and losses."
    return Section("Command and velocity", plots.velocity(flight, summary.modes, motion), note(text))


def _estimates(summary: Summary, motion: Motion | None) -> Section | None:
    """Section with the policy's own estimates of signals that no sensor gives."""
    if not summary.flight.estimates:
        return None
    told = note(f"{own_words(summary).capitalize()}.") if summary.own_error is not None else None
    return Section("What the policy estimates", plots.estimates(summary.flight, motion, summary.modes), told)


def _joints(flight: Flight, summary: Summary) -> Section | None:
    if not len(flight.state) or not len(flight.frame):
        return None
    span, parts = detail(flight, summary), []
    for limb, names in legs(flight.joint_names).items():
        both = (draw(flight, names, summary.modes, span) for draw in (plots.joints, plots.torques))
        parts += [heading(limb), *both]
    return Section(f"Joints, {span[0]:.1f} s to {span[1]:.1f} s", *parts)


def _health(flight: Flight, summary: Summary) -> Section:
    timing = [heading("Timing"), plots.timing(flight)] if len(flight.frame) > 2 else []
    return Section("Robot and computer", plots.health(flight, summary.modes) if len(flight.state) else None, *timing)


def _events(flight: Flight) -> Section:
    shown = flight.events[:EVENTS]
    rows = [[f"{event.time - flight.start:.3f} s", event.kind, event.text] for event in shown]
    more = note(f"and {len(flight.events) - EVENTS} more") if len(flight.events) > EVENTS else None
    return Section("Events", Table(["", "", ""], rows, ["", "", ""], "numbers events"), more)


def _against(flight: Flight, found: Comparison) -> Section:
    policy, windows, walk = found.policy, found.windows, found.walk
    parts: list[Any] = []
    if policy is not None:
        parts += [
            heading(f"The policy on the recorded signals: {'' if policy.same else 'NOT '}as recorded"),
            f"{policy.text(flight)}.",
            plots.policy_error(flight, policy.error, TOLERANCE),
        ]
    parts += [
        heading("Recorded frames through MuJoCo"),
        f"{windows.text()}.",
        Figure("", legend=[("swing", "how much joints changed"), ("cause", "error of the prediction")]),
        Group(*(plots.window_error(flight, windows, horizon) for horizon in range(2))),
    ]
    if walk is not None:
        first = next(iter(legs(flight.joint_names).values()))
        parts += [heading("The same commands, policy in the loop"), f"{walk.text(flight)}."]
        parts += plots.beside(flight, walk, first, DETAIL)
    else:
        parts.append(f"The policy was not walked in simulation: {found.why_no_walk}.")
    return Section(f"Against {found.bundle}", *parts, *_table(flight, found))


def _table(flight: Flight, found: Comparison) -> list[Any]:
    columns = {"20 ms [rad]": found.windows.pos_rmse[0], "200 ms [rad]": found.windows.pos_rmse[1]}
    if found.policy is not None:
        columns["target [rad]"] = found.policy.target_rmse
    if found.walk is not None:
        columns["in the loop [rad]"] = found.walk.pos_rmse
    joints = enumerate(flight.joint_names)
    rows = [[name, *(f"{values[j]:.4f}" for values in columns.values())] for j, name in joints]
    text = (
        "Root mean square errors of each joint: predicted position after 20 and 200 ms of recorded frames; targets of "
        "the policy on the recorded signals; position with the policy in the loop."
    )
    return [Table(["", *columns], rows), note(text)]


def _short(value: str) -> str:
    try:
        found = parse_json(value, "metadata", nan=True)
    except ValueError:
        return value
    if isinstance(found, dict):
        return ", ".join(f"{key} {item}" for key, item in found.items())
    return ", ".join(map(str, found)) if isinstance(found, list) else value
