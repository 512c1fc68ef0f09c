"""Gait metrics against gaits whose swings, slips and stumbles are written by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gaitway_sim2real.validate import gait
from gaitway_sim2real.validate.feet import FootTrace
from gaitway_sim2real.validate.gait import gait_metrics
from gaitway_sim2real.validate.metrics import METRICS
from hypothesis import given, settings
from hypothesis import strategies as st
from recording import recording

DT, DECIMATION, HEIGHT = 0.0025, 8, 0.55
QUADRUPED = np.array([[0.4, 0.3], [-0.4, 0.3], [0.4, -0.3], [-0.4, -0.3]])  # LF, LH, RF, RH
BIPED = np.array([[0.0, 0.1], [0.0, -0.1]])


def trace(contact: np.ndarray, places: np.ndarray = QUADRUPED, **changes: Any) -> FootTrace:
    """``contact`` (S, N, F); feet in the air are 5 cm up, and the load is 100 N."""
    values: dict[str, Any] = {
        "dt": DT,
        "decimation": DECIMATION,
        "stand_height": HEIGHT,
        "names": tuple("abcd"[: contact.shape[2]]),
        "places": places,
        "contact": contact,
        "clearance": np.where(contact, 0.0, 0.05),
        "slip": np.zeros(contact.shape),
        "normal_force": 100.0 * contact,
        "horizontal_force": 10.0 * contact,
        "soles": np.zeros(contact.shape[2]),
        "heel": contact,
        "toe": contact,
        "left": np.broadcast_to(places[:, 1], contact.shape),
    }
    return FootTrace(**{**values, **changes})


def steps(*lengths: float, down: bool = True) -> np.ndarray:
    """Contact of one foot, (S,): times on the ground and in the air [s], in turns, after 2 s of ramp on the ground."""
    parts = [np.ones(round(2.0 / DT), bool)]
    for length in lengths:
        parts.append(np.full(round(length / DT), down))
        down = not down
    return np.concatenate(parts)


def robot(*feet: np.ndarray) -> np.ndarray:
    """(S, 1, F), cut to whole control steps."""
    size = min(map(len, feet)) // DECIMATION * DECIMATION
    return np.stack([foot[:size] for foot in feet], 1)[:, None]


def measure(contact: np.ndarray, places: np.ndarray = QUADRUPED, **changes: Any) -> dict[str, float]:
    """Gait metrics of the first robot."""
    feet = trace(contact, places, **changes)
    rec = recording(steps=len(contact) // DECIMATION, robots=contact.shape[1], feet=contact.shape[2])
    return {name: float(value[0]) for name, value in gait_metrics(rec, feet).items()}


def trot(period: float, air: float, cycles: int = 12) -> np.ndarray:
    """Diagonal pairs swing in turns; ``air`` [s] of each ``period`` [s]."""
    one = steps(*[period - air, air] * cycles)
    other = steps(period / 2 - air, *[air, period - air] * cycles)
    return robot(one, other, other, one)


def test_a_trot_is_measured_as_written() -> None:
    measured = measure(trot(period=0.7, air=0.3))
    assert measured["swing_time"] == pytest.approx(0.3, abs=DT)
    assert measured["step_rate"] == pytest.approx(1 / 0.7, rel=0.1)  # the cut swings at the ends are not counted
    assert measured["duty_factor"] == pytest.approx(0.4 / 0.7, abs=0.03)
    assert measured["clearance"] == pytest.approx(0.05) and measured["slip"] == 0.0
    assert measured["dragging_feet"] == measured["stumbles"] == 0.0
    assert measured["left_right"] == pytest.approx(0.0, abs=0.02) == measured["front_hind"]


def test_standing_is_zero_and_not_unknown() -> None:
    contact = np.ones((1600, 1, 4), bool)
    measured = measure(contact)
    assert measured["swing_time"] == measured["clearance"] == measured["step_rate"] == measured["slip"] == 0.0
    assert measured["dragging_feet"] == measured["duty_factor"] == 1.0
    assert measured["left_right"] == measured["front_hind"] == measured["stumbles"] == 0.0
    assert math.isnan(measured["impact_speed"])


def test_a_foot_that_never_lifts_counts_as_zero() -> None:
    contact = trot(period=0.7, air=0.3)
    contact[:, :, 0] = True
    measured = measure(contact)
    assert measured["swing_time"] == pytest.approx(0.75 * 0.3, abs=DT)
    assert measured["clearance"] == pytest.approx((0.0 + 0.05) / 2)  # of the lower half of the feet
    assert measured["dragging_feet"] == 0.25
    assert measured["left_right"] == pytest.approx((2.0 + 0.0) / 2, abs=0.02)  # one pair of two, as far off as can be


def test_short_touches_and_short_lifts() -> None:
    air, touch, lift = 0.1, 0.01, 0.02
    once = (0.3, air, touch, air)  # a stumble amid the swing; its 10 ms are not in the air
    bounce = (0.1, lift, 0.2, air)  # a landing that bounces for 20 ms
    graze = (0.015, lift, 0.3, air)  # and one whose first touch is shorter than the bounce
    for lengths, swing, stumbles in (
        (once, 2 * air, 1.0),
        (bounce, air, 0.0),
        (graze, air + lift * 7 / 8, 0.0),  # the last swing ends without one
    ):
        foot = steps(*lengths * 8, 0.5)
        measured = measure(robot(foot, foot, foot, foot))
        assert measured["swing_time"] == pytest.approx(swing)
        assert measured["stumbles"] == pytest.approx(stumbles)


@pytest.mark.parametrize(("air", "counted"), [(0.0275, 0), (0.03, 1)])
def test_shortest_swing(air: float, counted: int) -> None:
    foot = steps(0.5, air, 1.0)
    measured = measure(robot(foot, foot), BIPED)
    assert measured["step_rate"] * (len(foot) // DECIMATION * DECIMATION * DT - 2.0) == pytest.approx(counted)


@pytest.mark.parametrize(("touch", "swings"), [(0.0175, 1), (0.02, 2)])
def test_shortest_touch(touch: float, swings: int) -> None:
    foot = steps(0.5, 0.2, touch, 0.2, 1.0)
    measured = measure(robot(foot, foot), BIPED)
    assert measured["step_rate"] * (len(foot) // DECIMATION * DECIMATION * DT - 2.0) == pytest.approx(swings)


def test_a_sideways_push_is_a_stumble() -> None:
    contact = trot(period=0.7, air=0.3)
    across = 10.0 * contact
    across[850:860, 0, 3] = 501.0  # one run of samples: one stumble
    assert measure(contact, horizontal_force=across)["stumbles"] == pytest.approx(1 / swings(contact), rel=1e-6)
    across[850:860, 0, 3] = 499.0
    assert measure(contact, horizontal_force=across)["stumbles"] == 0.0


def swings(contact: np.ndarray) -> int:
    feet = trace(contact)
    rec = recording(steps=len(contact) // DECIMATION, robots=1, feet=4)
    first, last = gait.window(rec, feet)
    return len(gait.find_swings(feet, gait.stances(feet, first, last)[0], first, last).robot)


def test_slip_counts_loaded_feet_after_the_ramp() -> None:
    contact = trot(period=0.7, air=0.3)
    slip = np.where(contact, 0.1, 9.0)
    slip[:800] = 5.0  # the first two seconds
    assert measure(contact, slip=slip)["slip"] == pytest.approx(0.1)


def test_the_speed_of_a_foot_in_flight_is_no_slip() -> None:
    contact = trot(period=0.7, air=0.3)
    slip = 0.1 * contact
    touch_down = contact[1:] & ~contact[:-1]
    slip[1:][touch_down] = 1.5
    assert measure(contact, slip=slip)["slip"] == pytest.approx(0.1)
    lift_off = contact[:-1] & ~contact[1:]
    slip[:-1][lift_off] = 0.5  # at the last moment of each stance: it moves the last two steps of 160
    assert measure(contact, slip=slip)["slip"] == pytest.approx(0.1 + 0.4 * 2 / 160, abs=1e-3)


def test_peak_and_impact_of_a_swing() -> None:
    """A foot that rises to 8 cm and comes down at 0.6 m/s."""
    contact = trot(period=0.8, air=0.3)
    clearance = np.zeros(contact.shape)
    for foot in range(4):
        lift = np.flatnonzero(contact[:-1, 0, foot] & ~contact[1:, 0, foot]) + 1
        for start in lift:
            profile = np.minimum(0.08, 0.6 * (120 - np.arange(120)) * DT)  # 0 at the touch-down
            part = clearance[start : start + 120, 0, foot]
            part[:] = profile[: len(part)]
    measured = measure(contact, clearance=clearance)
    assert measured["clearance"] == pytest.approx(0.08)
    assert measured["impact_speed"] == pytest.approx(0.6)


def test_a_limp_is_asymmetric_and_front_and_hind_are_told_apart() -> None:
    short, long = steps(*[0.5, 0.1] * 12), steps(*[0.3, 0.3] * 12)
    limp = measure(robot(short, short, long, long))  # left feet swing a third as long
    assert limp["left_right"] == pytest.approx(0.2 / 0.2, abs=0.03) and limp["front_hind"] == 0.0
    pairs = measure(robot(short, long, short, long))
    assert pairs["front_hind"] == pytest.approx(1.0, abs=0.03) and pairs["left_right"] == 0.0
    biped = measure(robot(short, long), BIPED)
    assert biped["left_right"] == pytest.approx(1.0, abs=0.03) and math.isnan(biped["front_hind"])


def test_a_fallen_robot_drags_its_feet() -> None:
    contact = np.concatenate([trot(period=0.7, air=0.3)] * 3, axis=1)
    alive = np.ones((len(contact) // DECIMATION, 3), bool)
    alive[175:, 1], alive[110:, 2] = False, False  # fell 1.5 s and 0.2 s after the ramp
    rec = recording(
        steps=len(alive), robots=3, feet=4, alive=alive, fall_step=np.array([-1, 174, 109]),
    )  # fmt: skip
    measured = gait_metrics(rec, trace(contact))
    assert measured["swing_time"][0] > 0.29 and measured["dragging_feet"].tolist() == [0.0, 1.0, 1.0]
    assert measured["swing_time"][1:].tolist() == measured["clearance"][1:].tolist() == [0.0, 0.0]
    assert np.isfinite(measured["step_rate"]).tolist() == [True, True, False]
    assert measured["step_rate"][1] == pytest.approx(1 / 0.7, rel=0.35)


def test_torque_frequency_is_that_of_a_sine() -> None:
    time = np.arange(400) * 0.02
    torque = np.zeros((400, 1, 12))
    torque[:, 0, 3], torque[:, 0, 5] = 20 + 7 * np.sin(2 * np.pi * 2.0 * time), 40.0  # holding still is no change
    measured = gait.roughness(recording(steps=400, robots=1, torque=torque))
    assert measured["torque_frequency"][0] == pytest.approx(2.0, rel=0.01)
    assert measured["base_acceleration"][0] == 0.0


def test_base_acceleration_is_that_of_the_world_frame() -> None:
    """A base that walks in a circle: v^2 / r, though its velocity in its own frame never changes."""
    time = np.arange(400) * 0.02
    lin_vel, quat = np.zeros((400, 1, 3)), np.zeros((400, 1, 4))
    lin_vel[..., 0], quat[:, 0, 0], quat[:, 0, 3] = 1.0, np.cos(time / 2), np.sin(time / 2)  # 1 m/s and 1 rad/s
    measured = gait.roughness(recording(steps=400, robots=1, lin_vel=lin_vel, base_quat=quat))
    assert measured["base_acceleration"][0] == pytest.approx(1.0, rel=0.01)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.booleans())
def test_any_contact_gives_known_numbers(lengths: list[int], down: bool) -> None:
    foot = steps(*(length * DT for length in lengths), 1.2, down=down)
    contact = robot(foot, foot[::-1].copy(), foot, ~foot)
    measured = measure(contact)
    without = {"slip", "impact_speed", "step_width"}  # of a foot that does not step
    without |= {name for name, metric in METRICS.items() if metric.needs} - {"left_right"} | {"base_height", "bob"}
    assert all(math.isfinite(value) for name, value in measured.items() if name not in without)
    assert 0.0 <= measured["duty_factor"] <= 1.0 and 0.0 <= measured["left_right"] <= 2.0
    assert measured["swing_time"] == 0.0 or measured["swing_time"] >= 0.03 / 4 - 1e-9
    assert measured["step_rate"] <= 1 / (gait.SHORTEST_SWING + gait.SHORTEST_TOUCH) + 1


@given(st.floats(0.2, 2.0))
def test_a_larger_robot_that_moves_alike_has_the_same_scaled_gait(scale: float) -> None:
    contact = trot(period=0.7, air=0.3)
    rec = recording(steps=len(contact) // DECIMATION, robots=1, feet=4)
    small = trace(contact)
    large = replace(small, stand_height=HEIGHT * scale**2, clearance=small.clearance * scale**2, dt=DT)
    one, other = (gait_metrics(rec, feet) for feet in (small, large))
    assert other["clearance"][0] == pytest.approx(one["clearance"][0] * scale**2)
    assert other["dragging_feet"][0] == one["dragging_feet"][0]
