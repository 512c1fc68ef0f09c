"""What a flight looked like, in a few numbers that a simulated flight has too: whether it fell, tilted, trembled."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from gaitway_onboard.flight.reading import Flight
from gaitway_onboard.interface import Array

from .loads import Loads
from .recorded import Recorded, down, smoothed

TOLERANCES = {
    "roll": 0.01, "pitch": 0.01, "sway": 0.01, "trembling": 0.06, "torque": 0.05, "turning": 0.03,
    "speed along": 0.03, "speed across": 0.03, "tracking": 0.05, "sliding": 0.05,
}  # fmt: skip
"""Differences that two flights of one robot with other noise do not have: rad, rad, rad, share, share, rad/s, m/s, m/s,
share, share."""
SHARES = ("trembling", "torque", "tracking")
ENDED = "ended early"
MIN_WALK = 0.5  # [s] of policy, for its means to count
HALF = 0.5  # share of the difference that a counterfactual may leave


@dataclass(frozen=True, kw_only=True)
class Symptoms:
    values: dict[str, float] = field(default_factory=dict)
    trip: str = ""
    """Reason why a check ended the flight, "" if none did."""


def policy_start(flight: Flight) -> float | None:
    """When the policy took over [s]; None if it did not."""
    return next((event.time for event in flight.events if (event.kind, event.text) == ("mode", "policy")), None)


def trip_of(flight: Flight) -> str:
    return next((event.text for event in flight.events if event.kind in ("trip", "drop")), "")


def symptoms_of(record: Recorded, loads: Loads | None, seconds: float) -> Symptoms:
    """Of the first ``seconds`` [s] of policy."""
    flight, start = record.flight, policy_start(record.flight)
    trip = trip_of(flight)
    if start is None:
        return Symptoms(trip=trip)
    rows = record.usable & (record.time >= start) & (record.time < start + seconds)
    if rows.sum() * record.period < MIN_WALK:
        return Symptoms(trip=trip)
    gravity = down(record)[rows]
    roll, pitch = np.arctan2(-gravity[:, 1], -gravity[:, 2]), np.arctan2(gravity[:, 0], -gravity[:, 2])
    shaking = record.calm_vel - smoothed(record.vel, max(3, round(0.06 / record.period) | 1))
    targets, _, _ = record.commands(0.0)
    told = flight.policy.command[np.clip(np.searchsorted(flight.policy.time, record.time[rows]) - 1, 0, None)]
    values = {
        "roll": float(roll.mean()), "pitch": float(pitch.mean()),
        "sway": float(np.hypot(roll - roll.mean(), pitch - pitch.mean()).std()),
        "trembling": _rms(shaking[rows]), "torque": _rms(record.torque[rows]),
        "tracking": _rms((targets - record.pos)[rows]), "turning": float((record.gyro[rows, 2] - told[:, 2]).mean()),
    }  # fmt: skip
    if loads is not None and (found := _speed(record, loads, start, start + seconds)) is not None:
        values["speed along"], values["speed across"] = found
        values["sliding"] = loads.sliding()[0]
    return Symptoms(values=values, trip=trip)


def _speed(record: Recorded, loads: Loads, start: float, end: float) -> tuple[float, float] | None:
    """Mean speed less the command, x and y [m/s], by the legs that stand."""
    time = record.time[loads.rows]
    standing = ~loads.swing & ((loads.force * loads.samples.up[:, None]).sum(-1) > 0.0)
    rows = standing.any(1) & (time >= start) & (time < end)
    if rows.sum() < 20:
        return None
    weight = standing[rows, :, None]
    speed = -(loads.foot_speed[rows] * weight).sum(1) / weight.sum(1)
    policy = record.flight.policy
    told = policy.command[np.clip(np.searchsorted(policy.time, time[rows]) - 1, 0, None)]
    x, y = (speed[:, :2] - told[:, :2]).mean(0)
    return float(x), float(y)


def _rms(values: Array) -> float:
    return float(np.sqrt((values**2).mean()))


def differences(one: Symptoms, other: Symptoms) -> dict[str, float]:
    """Differences of two flights in units of :data:`TOLERANCES`, by symptom."""
    found = {ENDED: float(bool(one.trip) - bool(other.trip)) * 10.0}
    for name in one.values.keys() & other.values.keys():
        a, b = one.values[name], other.values[name]
        difference = np.log(max(a, 1e-6) / max(b, 1e-6)) if name in SHARES else a - b
        found[name] = float(difference / TOLERANCES[name])
    return found


def is_matched(flown: Symptoms, without: Symptoms, swapped: Symptoms) -> tuple[bool, list[str]]:
    """Does the swap bring the symptoms about? And the symptoms, those in which the flight is unlike ``without``."""
    before, after = differences(flown, without), differences(flown, swapped)
    shown = sorted((name for name, value in before.items() if abs(value) > 1.0), key=lambda n: -abs(before[n]))
    if not shown:
        return False, []
    if ENDED in shown and after[ENDED]:
        return False, shown
    size = np.sqrt(sum(before[name] ** 2 for name in shown))
    left = np.sqrt(sum(after.get(name, before[name]) ** 2 for name in shown if name in after or name != ENDED))
    return bool(left < HALF * size), shown
