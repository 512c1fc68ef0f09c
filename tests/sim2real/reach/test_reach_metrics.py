"""Metrics of reaching, on hands that are put where a test wants them; a flaw that is planted is found."""

from types import SimpleNamespace

import numpy as np
import pytest
from gaitway_onboard.rotation import quat_apply, quat_from_rpy, quat_mul
from gaitway_reach import metrics
from gaitway_reach.metrics import BASE, HAND, NEAR, PERIOD, TIME, TURNED
from recording import recording

DT = 1.0 / 30.0
STEPS, ROBOTS = round(2 * PERIOD / DT), 3
CONTRACT = SimpleNamespace(joint_names=("panda_joint1", "panda_joint2", "panda_finger_joint1"))


def reaching(*, off=(0.0, 0.0, 0.0), turned=0.0, arrives=1.0, base=(0.3, -0.2, 1.0), yaw=0.7, **changes):
    """Robots that are told two poses, and are ``off`` by this and ``turned`` by that from ``arrives`` [s] on."""
    random = np.random.default_rng(0)
    told = random.uniform((0.35, -0.2, 0.15, 0.0, np.pi, -3.0), (0.65, 0.2, 0.5, 0.0, np.pi, 3.0), (2, ROBOTS, 6))
    command = np.repeat(told, round(PERIOD / DT), axis=0)
    root = np.broadcast_to(quat_from_rpy(np.array([0.0, 0.0, yaw])), (STEPS, ROBOTS, 4))
    since = np.tile((np.arange(round(PERIOD / DT)) + 1) * DT, 2)[:, None, None]
    place = command[..., :3] + np.where(since > arrives, np.array(off), 0.3)
    turn = quat_from_rpy(np.broadcast_to(np.array([turned, 0.0, 0.0]), (STEPS, ROBOTS, 3)))
    hand = quat_mul(quat_mul(root, quat_from_rpy(command[..., 3:])), turn)
    at = np.array(base) + quat_apply(root, place)
    bodies = {BASE: np.broadcast_to(np.array(base), at.shape), HAND: at}
    for name, side in (("panda_leftfinger", 0.04), ("panda_rightfinger", -0.04)):
        bodies[name] = at + quat_apply(hand, np.broadcast_to(np.array([0.0, side, 0.0584]), at.shape))
    return recording(STEPS, ROBOTS, 3, control_dt=DT, command=command, base_quat=root, bodies=bodies, **changes)


def test_a_hand_at_its_pose():
    rec = reaching()
    since = metrics.since_told(rec)
    assert since[0, 0] == pytest.approx(DT) and since[149, 0] == pytest.approx(PERIOD) and since[150, 0] == since[0, 0]
    there = since > 1.0
    np.testing.assert_allclose(metrics.position_error(rec)[there], 0.0, atol=1e-9)
    np.testing.assert_allclose(metrics.position_error(rec)[~there], 0.3 * np.sqrt(3.0), atol=1e-9)
    np.testing.assert_allclose(metrics.orientation_error(rec), 0.0, atol=1e-6)
    np.testing.assert_array_equal(metrics.reached(rec, CONTRACT), 1.0)
    np.testing.assert_allclose(metrics.reach_time(rec, CONTRACT), 1.0, atol=DT)


@pytest.mark.parametrize("turned", [0.01, 0.19, 0.21, 1.5, 3.1])
def test_how_far_a_hand_is_turned(turned):
    rec = reaching(turned=turned)
    np.testing.assert_allclose(metrics.orientation_error(rec), turned, atol=1e-6)
    np.testing.assert_array_equal(metrics.reached(rec, CONTRACT), float(turned < TURNED))


@pytest.mark.parametrize("off", [0.9 * NEAR, 1.1 * NEAR])
def test_a_hand_beside_its_place(off):
    rec = reaching(off=(0.0, off, 0.0))
    np.testing.assert_allclose(metrics.steady(metrics.position_error)(rec, CONTRACT), off, atol=1e-6)
    np.testing.assert_array_equal(metrics.reached(rec, CONTRACT), float(off < NEAR))
    np.testing.assert_allclose(metrics.reach_time(rec, CONTRACT), 1.0 if off < NEAR else PERIOD, atol=DT)


def test_a_hand_that_comes_too_late():
    rec = reaching(arrives=TIME + 0.2)
    np.testing.assert_array_equal(metrics.reached(rec, CONTRACT), 0.0)
    np.testing.assert_allclose(metrics.reach_time(rec, CONTRACT), TIME + 0.2, atol=DT)


def test_a_hand_that_leaves_again_has_not_reached():
    rec = reaching()
    away = rec.bodies[HAND].copy()
    away[145, 1] += 0.05
    rec = reaching()
    rec.bodies[HAND] = away
    assert metrics.reached(rec, CONTRACT).tolist() == [1.0, 0.0, 1.0]
    late = 146 * DT
    np.testing.assert_allclose(metrics.reach_time(rec, CONTRACT), [1.0, (late + 1.0) / 2, 1.0], atol=DT)


def test_a_robot_that_fell_has_reached_nothing():
    rec = reaching()
    rec.alive[140:, 0] = False
    rec.alive[60:, 1] = False
    assert metrics.reached(rec, CONTRACT).tolist() == [1.0, 0.0, 1.0]  # the second never had the time


def test_trembling_counts_at_rest_alone():
    speed, torque = np.zeros((2, STEPS, ROBOTS, 3))
    since = metrics.since_told(reaching())
    speed[since <= TIME] = 2.0
    speed[..., 2] = 9.0  # a finger
    torque[1::2] = 0.5
    rec = reaching(joint_vel=speed, torque=torque)
    np.testing.assert_allclose(metrics.rest_speed(rec, CONTRACT), 0.0)
    np.testing.assert_allclose(metrics.torque_change(rec, CONTRACT), 0.5)
    speed[since > TIME] = 0.1
    np.testing.assert_allclose(metrics.rest_speed(reaching(joint_vel=speed), CONTRACT), 0.1)
