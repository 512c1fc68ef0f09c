"""Summaries of flights whose numbers are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gaitway_onboard.flight.opening import open_flight
from gaitway_onboard.flight.reading import Flight, read_flight
from gaitway_onboard.interface import Decision, Health, Signals
from gaitway_onboard.rotation import tilt_of
from gaitway_sim2real.pages.panels import POINTS, thin
from gaitway_sim2real.replay.summary import summarise, text

JOINTS = ("LF_HAA", "LF_HFE")


def made_up(path: Path) -> Flight:
    """Three seconds at 100 Hz: ramp, policy, damping after a trip; a hot motor, a late step, a clamped joint, a gap."""
    log = open_flight(path, JOINTS, {"robot": "anymal-c", "hardware": ""}, realtime=False)
    for k in range(300):
        now = 50.0 + 0.01 * k
        mode = "ramp" if k < 100 else "policy" if k < 250 else "damp"
        if k == 250:
            log.event(now, "trip", "tilt: the base is tilted by 1.10 rad")
        log.state(
            Signals(
                np.array([0.1, 0.2]), np.zeros(2), np.array([1.0, 0, 0, 0]), np.array([0, 0, 0.25]), now,
                base_lin_vel=np.array([0.4, 0.0, 0.0]), joint_torque=np.array([1.0, -30.0 if k == 120 else 2.0]),
                health=Health(corrupt=k // 100, battery=0.8 - 0.001 * k,
                              motor_temperature=np.array([40.0, 71.0 if k == 180 else 45.0])),
            )
        )  # fmt: skip
        asked = np.array([0.5, 0.5 if 150 <= k < 160 else 0.3])
        targets = np.minimum(asked, [0.5, 0.3])
        if k != 200:
            log.frame(now, mode, targets, np.full(2, 40.0), np.ones(2), asked)
        if mode == "policy" and k % 2 == 0:
            log.policy(Decision(now, (0.5, 0.0, 0.25), np.zeros(1), np.zeros(2), {}, targets, 0.0), k == 152)
    log.close()
    return read_flight(path)


def test_every_number_of_a_flight(tmp_path: Path) -> None:
    flight = made_up(tmp_path / "a.mcap")
    found = summarise(flight)
    assert [(s.mode, round(s.start, 6), round(s.end, 6)) for s in found.modes] == [
        ("ramp", 0.0, 1.0),
        ("policy", 1.0, 2.5),
        ("damp", 2.5, 2.99),
    ]
    assert (len(flight.state), len(flight.frame), len(flight.policy)) == (300, 299, 75)
    assert found.state_rate == pytest.approx(100.0)
    assert found.frame_gap[0] == pytest.approx(0.01) and found.frame_gap[2] == pytest.approx(0.02)
    assert (found.late, found.clamped, found.clamped_most, found.corrupt) == (1, 10, "LF_HFE", 2)
    assert found.tracking == pytest.approx((0.1, 0.0))
    assert found.torque is not None and found.torque.joint == "LF_HFE"
    assert (found.torque.value, found.torque.time) == pytest.approx((30.0, 1.2))
    assert found.hottest is not None and found.hottest.value == 71.0
    assert found.battery == pytest.approx((0.8, 0.501))
    said = text(found)
    for part in (
        "trip after 2.50 s, tilt: the base",
        "10 frames clamped, LF_HFE",
        "71.0 °C",
        "80 % to 50 %",
        "75 steps, 1 late",
    ):
        assert part in said, part


def test_a_recorded_flight_tells_its_modes_and_end(flight: Flight) -> None:
    found = summarise(flight)
    assert [span.mode for span in found.modes][-5:] == ["policy", "settle", "hold", "lower", "damp"]
    policy = next(span for span in found.modes if span.mode == "policy")
    assert policy.end - policy.start == pytest.approx(2.0, abs=0.01)
    assert found.end is not None and found.end.kind == "stop" and "finished" in found.end.text
    assert found.state_rate == pytest.approx(500.0, rel=0.01) and len(flight.policy) == 110
    assert flight.robot == "go2" and flight.hardware == "unitree-go2"


def test_thinning_keeps_every_peak() -> None:
    time = np.arange(100_000.0)
    values = np.sin(time / 7000.0)
    values[[3, 55_555]] = 9.0, -7.0
    values[70_000:71_000] = np.nan
    short, kept = thin(time, values)
    assert len(short) <= POINTS and (np.diff(short) > 0).all()
    assert np.nanmax(kept) == 9.0 and np.nanmin(kept) == -7.0
    assert np.isnan(kept).any()


def test_tilt_by_hand() -> None:
    half = 0.3
    roll_then_yaw = [np.cos(half) * np.cos(1.0), np.sin(half) * np.cos(1.0), np.sin(half) * np.sin(1.0),
                     np.cos(half) * np.sin(1.0)]  # fmt: skip
    assert tilt_of(np.array([roll_then_yaw, [1.0, 0, 0, 0]])) == pytest.approx([0.6, 0.0])
