"""Gait metrics against gaits whose swings, slips and stumbles are written by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from foot_traces import BIPED, DECIMATION, DT, HEIGHT, QUADRUPED, robot, steps, trace
from gaitway_sim2real.mujoco.limbs import Arm
from gaitway_velocity import gait
from gaitway_velocity.gait import gait_metrics
from gaitway_velocity.limits import GAIT_LIMITS
from gaitway_velocity.metrics import METRICS
from gaitway_velocity.needs import OTHER_FEET, VELOCITY
from hypothesis import given, settings
from hypothesis import strategies as st
from recording import recording


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


@pytest.mark.parametrize(
    ("times", "swings"),
    [((0.0275, 1.0), 0), ((0.03, 1.0), 1), ((0.2, 0.0175, 0.2, 1.0), 1), ((0.2, 0.02, 0.2, 1.0), 2)],
)
def test_shortest_swing_and_touch(times: tuple[float, ...], swings: int) -> None:
    foot = steps(0.5, *times)
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


def walk(stride: float = 1.0, swing: float = 0.4, cycles: int = 8) -> np.ndarray:
    """Two feet that swing in turns, (S, 1, 2): 0.4 of a stride each, as people do."""
    one = steps(*[stride - swing, swing] * cycles)
    other = steps(stride / 2 - swing, *[swing, stride - swing] * cycles)
    return robot(one, other)


def test_a_walk_is_measured_as_people_are() -> None:
    """A stride of 1 s, a pelvis at 0.93 m, and toes that clear 19 mm where they are lowest (docs/gait_metrics.md)."""
    measured = measure(walk(), BIPED, stand_height=0.93, clearance=np.where(walk(), 0.0, 0.019))
    assert measured["swing_time"] == pytest.approx(0.4, abs=DT)
    assert measured["double_support"] == pytest.approx(0.2, abs=0.02)
    limits = [limit for limit in GAIT_LIMITS if limit.metric in measured]
    failed = [limit for limit in limits if not limit.for_robot(0.93).passes(measured[limit.metric])]
    assert [limit.needs for limit in failed] == [(VELOCITY, OTHER_FEET)]  # and not the one for two feet


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 0.4), st.floats(-0.1, 0.1), st.floats(-0.2, 0.2))
def test_step_width_is_the_distance_at_touch_down(width: float, sway: float, offset: float) -> None:
    """Feet that stand still under a base which sways: when one lands, the other is where it was."""
    contact = walk()
    base = offset + sway * np.sin(np.arange(len(contact)) * DT)[:, None]
    left = np.stack([width / 2 - base, -width / 2 - base], -1)
    left = left + np.where(contact, 0.0, 0.07) * [1.0, -1.0]  # feet swing outward; what they do in the air is no width
    assert measure(contact, BIPED, left=left)["step_width"] == pytest.approx(width, abs=1e-6)
    assert measure(contact, BIPED, left=-left)["step_width"] == pytest.approx(-width, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["heel_first", "flat", "toe_first"]), min_size=1, max_size=8))
def test_strikes_are_told_apart(kinds: list[str]) -> None:
    """Each touch-down of the left foot is of one kind; the other end follows 30 ms later, or 10 ms if flat."""
    one = steps(*[0.6, 0.4] * len(kinds), 0.6)
    contact = robot(one, np.ones_like(one))
    heel, toe = contact.copy(), contact.copy()
    down = np.flatnonzero(np.diff(contact[:, 0, 0].astype(int)) == 1) + 1
    for start, kind in zip(down, kinds, strict=True):
        late = round((0.01 if kind == "flat" else 0.03) / DT)
        (heel if kind == "toe_first" else toe)[start : start + late, 0, 0] = False
    measured = measure(contact, BIPED, heel=heel, toe=toe, soles=np.full(2, 0.2))
    assert {name: measured[name] for name in ("heel_first", "flat", "toe_first")} == pytest.approx(
        {name: kinds.count(name) / len(kinds) for name in ("heel_first", "flat", "toe_first")}
    )
    assert math.isnan(measure(contact, BIPED, heel=heel, toe=toe)["flat"])  # balls have no heel


@settings(max_examples=25, deadline=None)
@given(st.floats(0.1, 1.0), st.floats(0.0, 2 * math.pi), st.floats(0.6, 1.2))
def test_arms_swing_with_the_legs_across(swing: float, phase: float, stride: float) -> None:
    """Of three robots one swings its arms as told, one against that, one not at all; the signs of joints differ."""
    time = np.arange(round((2.0 + 8 * stride) / 0.02))[:, None] * 0.02
    turn = 2 * np.pi * time / stride
    joints = np.zeros((len(time), 3, 4))
    joints[..., 2] = 0.3 * np.sin(turn)  # hip of the right leg
    joints[..., 0] = np.sin(turn + phase) * [-swing / 2, swing / 2, 0.0] + 0.4  # left shoulder, forward is negative
    arms = (Arm(hand="left", joints=((0, -1.0), (2, 1.0))),)
    rec = recording(steps=len(time), robots=3, joints=4, joint_pos=joints, arms=arms)
    found = gait.arm_swing(rec)
    np.testing.assert_allclose(found["arm_swing"], [swing, swing, 0.0], rtol=0.02, atol=1e-6)
    np.testing.assert_allclose(found["arms_with_legs"], [math.cos(phase), -math.cos(phase), np.nan], atol=0.03)


def test_the_base_bobs() -> None:
    time = np.arange(400)[:, None] * 0.02
    height = 0.9 + 0.02 * np.sin(2 * np.pi * 2 * time) + np.zeros((400, 2))
    height[:50] = 0.3  # the ramp does not count
    found = gait.posture(recording(steps=400, robots=2, height=height), 1.0)
    np.testing.assert_allclose(found["base_height"], 0.9, atol=1e-3)
    np.testing.assert_allclose(found["bob"], 0.04, rtol=0.01)


@pytest.mark.parametrize(("share", "dragging"), [(0.006, (1.0, 1.0)), (0.015, (1.0, 0.0)), (0.021, (0.0, 0.0))])
def test_a_foot_that_is_hardly_lifted_drags(share: float, dragging: tuple[float, float]) -> None:
    """Of four feet below 0.02 L, of two below 0.007 L."""
    four, two = trot(period=0.7, air=0.3), walk()
    for contact, places, expected in zip((four, two), (QUADRUPED, BIPED), dragging, strict=True):
        clearance = np.where(contact, 0.0, share * HEIGHT)
        assert measure(contact, places, clearance=clearance)["dragging_feet"] == expected


@pytest.mark.parametrize("feet", [1, 2, 3, 6])
def test_any_number_of_feet(feet: int) -> None:
    one = steps(*[0.4, 0.3] * 8)
    places = np.array([[0.1 * k, 0.1 * (-1) ** k] for k in range(feet)])
    measured = measure(robot(*[one] * feet), places)
    assert measured["swing_time"] == pytest.approx(0.3, abs=DT) and measured["clearance"] == pytest.approx(0.05)
    assert math.isnan(measured["left_right"]) == math.isnan(measured["step_width"]) == (feet % 2 == 1)
    assert math.isnan(measured["double_support"]) == (feet != 2)


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
