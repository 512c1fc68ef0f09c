"""Metrics of lifting, on objects that are put where a test wants them; a flaw that is planted is found."""

from types import SimpleNamespace

import numpy as np
import pytest
from gaitway_lift import metrics
from gaitway_lift.metrics import BASE, NEAR, OBJECT, SECONDS, TIME
from gaitway_onboard.rotation import quat_apply, quat_from_rpy
from recording import recording

DT = 0.02
STEPS, ROBOTS = round(SECONDS / DT), 3
CONTRACT = SimpleNamespace(joint_names=("panda_joint1", "panda_joint2", "panda_finger_joint1"))
CLOCK = (np.arange(STEPS) + 1) * DT


def lifting(*, off=0.0, arrives=2.0, dropped=np.inf, **changes):
    """Objects that lie on the table, are ``off`` their goals [m] from ``arrives`` on, and fall at ``dropped`` [s]."""
    random = np.random.default_rng(0)
    goal = random.uniform((0.4, -0.25, 0.25), (0.6, 0.25, 0.5), (ROBOTS, 3))
    command = np.broadcast_to(np.hstack([goal, np.zeros((ROBOTS, 3))]), (STEPS, ROBOTS, 6))
    root = np.broadcast_to(quat_from_rpy(np.array([0.0, 0.0, 0.7])), (STEPS, ROBOTS, 4))
    there = ((arrives < CLOCK) & (dropped > CLOCK))[:, None, None]
    place = np.where(there, goal + np.array([off, 0.0, 0.0]), np.array([0.5, 0.0, 0.024]))
    base = np.array([0.3, -0.2, 0.0])
    bodies = {BASE: np.broadcast_to(base, place.shape), OBJECT: base + quat_apply(root, place)}
    return recording(STEPS, ROBOTS, 3, control_dt=DT, command=command, base_quat=root, bodies=bodies, **changes)


def test_an_object_at_its_goal():
    rec = lifting()
    np.testing.assert_array_equal(metrics.success(rec, CONTRACT), 1.0)
    np.testing.assert_array_equal(metrics.drops(rec, CONTRACT), 0.0)
    np.testing.assert_allclose(metrics.goal_time(rec, CONTRACT), 2.0, atol=DT)
    np.testing.assert_allclose(metrics.steady_distance(rec, CONTRACT), 0.0, atol=1e-9)


@pytest.mark.parametrize("off", [0.9 * NEAR, 1.1 * NEAR])
def test_an_object_beside_its_goal(off):
    rec = lifting(off=off)
    np.testing.assert_array_equal(metrics.success(rec, CONTRACT), float(off < NEAR))
    np.testing.assert_allclose(metrics.steady_distance(rec, CONTRACT), off, atol=1e-6)
    np.testing.assert_allclose(metrics.goal_time(rec, CONTRACT), 2.0 if off < NEAR else SECONDS, atol=DT)


def test_an_object_that_comes_too_late_or_falls():
    late = lifting(arrives=TIME + 0.1)
    assert not metrics.success(late, CONTRACT).any() and not metrics.drops(late, CONTRACT).any()
    dropped = lifting(dropped=7.0)
    assert not metrics.success(dropped, CONTRACT).any() and metrics.drops(dropped, CONTRACT).all()
    np.testing.assert_allclose(metrics.goal_time(dropped, CONTRACT), SECONDS, atol=DT)


def test_a_simulation_that_diverged_has_no_success():
    rec = lifting()
    rec.alive[-5:, 1] = False
    assert metrics.success(rec, CONTRACT).tolist() == [1.0, 0.0, 1.0]


def test_trembling_counts_at_rest_alone():
    speed = np.zeros((STEPS, ROBOTS, 3))
    speed[CLOCK <= TIME], speed[..., 2] = 2.0, 9.0
    np.testing.assert_allclose(metrics.rest_speed(lifting(joint_vel=speed), CONTRACT), 0.0)
    speed[CLOCK > TIME] = 0.2
    np.testing.assert_allclose(metrics.rest_speed(lifting(joint_vel=speed), CONTRACT), 0.2)
