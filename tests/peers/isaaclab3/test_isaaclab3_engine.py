"""Recordings of ``gaitway validate --engine`` in Isaac Lab: feet on the ground, their load, friction as told."""

import numpy as np
import pytest
from gaitway_isaaclab.walk import Walk
from gaitway_tasks.robots.anymal_c import ANYMAL_C

FRICTION, RADIUS, SECONDS = 0.8, 0.03, 1.0
DIAGONAL = np.sqrt(0.5)
CLAW = 20.0  # [N], forces below this are too small for ratios


@pytest.mark.quick
def test_robots_stand_on_their_feet_and_slide_by_the_friction(lab, physics):
    """The second robot is put down at 1 m/s, and its feet slide until friction has stopped it.

    It moves diagonally: forwards, its legs yield, and Newton's soft friction (pyramidal cones, impratio 1) stops the
    feet at 0.59 of the load before it has reached 0.8.
    """
    robot = ANYMAL_C.replace(joint_names=tuple(reversed(ANYMAL_C.joint_names)))  # no simulator's order
    robot = robot.replace(default_joint_pos=tuple(reversed(ANYMAL_C.default_joint_pos)))
    walk = Walk(robot, 2, physics=physics, physics_dt=0.005, decimation=4, friction=FRICTION)
    try:
        pose = np.tile(robot.default_joint_pos, (2, 1))
        start = np.tile([0.0, 0.0, 0.57], (2, 1))
        quarter = np.tile([np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)], (2, 1))
        walk.place(start, quarter, pose, np.array([[0.0, 0.0, 0.0], [-DIAGONAL, DIAGONAL, 0.0]]))
        first = walk.state()
        steps = round(SECONDS / 0.02)
        found = walk.record(lambda step, state: pose, range(steps), [[f] for f in robot.foot_names], ["base"])
    finally:
        walk.close()
    np.testing.assert_allclose(first["joint_pos"], pose, atol=1e-5)
    np.testing.assert_allclose(first["base_quat"], quarter, atol=1e-5)
    np.testing.assert_allclose(first["base_pos"], start, atol=1e-5)
    np.testing.assert_allclose(first["lin_vel"][1], [DIAGONAL, DIAGONAL, 0.0], atol=1e-5)  # in the base's frame
    assert found["foot_pos"].shape == (4 * steps, 2, 4, 3) and found["torque"].shape == (steps, 2, 12)
    end = slice(-20, None)
    height = found["foot_pos"][end, 0, :, 2] - RADIUS
    assert np.abs(height).max() < 0.003
    mass = 9.81 * 44.96  # of the MJCF
    np.testing.assert_allclose(found["foot_force"][end, 0, :, 2].sum(1).mean(), mass, rtol=0.01)
    assert np.linalg.norm(found["foot_lin_vel"][end, 0], axis=-1).max() < 0.02
    assert not found["press"].any() and (found["base_pos"][-1, :, 2] > 0.45).all()
    force = found["foot_force"][:, 1]
    ratio = np.linalg.norm(force[..., :2], axis=-1) / np.maximum(force[..., 2], CLAW)
    sliding = force[..., 2] > CLAW
    assert ratio[sliding].max() == pytest.approx(FRICTION, abs=0.03)
