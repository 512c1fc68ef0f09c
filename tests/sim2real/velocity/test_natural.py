"""Seven numbers of a natural gait, against motions written by hand."""

from dataclasses import replace

import numpy as np
import pytest
from foot_traces import DECIMATION, DT, robot, steps, trace
from gaitway_tasks.robots import ROBOTS
from gaitway_velocity.natural import MEASURES, clip_distance, frechet, natural, stride_variation
from recording import recording

GO2 = ROBOTS["go2"]
RNG = np.random.default_rng(0)


def test_the_distance_of_normal_distributions():
    """Of diagonal covariances it is |m_a - m_b|^2 + sum (s_a - s_b)^2; of equal samples 0; it is symmetric."""
    samples = RNG.standard_normal((40_000, 3))
    samples = (samples - samples.mean(0)) @ np.linalg.inv(
        np.linalg.cholesky(np.cov(samples, rowvar=False, bias=True))
    ).T
    a, b = samples * [1.0, 2.0, 3.0], samples * [2.0, 2.0, 1.0] + [0.0, 3.0, 0.0]
    assert frechet(a, b) == pytest.approx(np.sqrt(9.0 + 1.0 + 0.0 + 4.0), rel=1e-6)
    assert frechet(a, a) == pytest.approx(0.0, abs=1e-6) and frechet(a, b) == pytest.approx(frechet(b, a))
    turned = a @ np.linalg.qr(RNG.standard_normal((3, 3)))[0]
    assert frechet(a, turned) > 0.1, "covariances count"


def stride(phases, samples=50):
    """Joint positions and velocities (samples, J) of legs that swing with the given shifts, in cycles."""
    turn = 2 * np.pi * (np.arange(samples)[:, None] / samples + np.repeat(phases, 3))
    return 0.3 * np.sin(turn), 3.0 * np.cos(turn)


def test_legs_are_compared_one_by_one():
    """A pace of the same steps is as close as a trot; larger steps are not."""
    trot, pace = stride([0.0, 0.5, 0.5, 0.0]), stride([0.0, 0.5, 0.0, 0.5])
    assert clip_distance(*trot, GO2, trot) == pytest.approx(0.0, abs=1e-5)
    assert clip_distance(*pace, GO2, trot) == pytest.approx(0.0, abs=1e-5)
    larger = clip_distance(2.0 * trot[0], trot[1], GO2, trot)
    assert clip_distance(*(np.stack((part, part), 1) for part in trot), GO2, trot) == pytest.approx(0.0, abs=1e-5)
    assert larger > 0.5 > clip_distance(1.1 * trot[0], trot[1], GO2, trot) > 0.0


def walked(*cycles, stood=True):
    """One robot whose feet all take steps of these lengths: a stance of 0.2 s, and the rest in the air."""
    foot = steps(*[part for cycle in cycles for part in (0.2, cycle - 0.2)], 0.2)
    feet = trace(robot(foot, foot, foot, foot))
    count = len(feet.contact) // DECIMATION
    alive = np.ones((count, 1), bool)
    alive[-1] = stood
    time = 0.02 * np.arange(count)[:, None, None]
    made = recording(
        count, 1, 12, 4, alive=alive, joint_vel=np.tile(np.sin(2 * np.pi * time), (1, 1, 12)),
        command=np.tile([1.0, 0.0, 0.0], (count, 1, 1)), lin_vel=np.tile([0.5, 0.0, 0.0], (count, 1, 1)),
        torque=np.full((count, 1, 12), 2.0),
    )  # fmt: skip
    return replace(made, feet=feet)


def test_strides_that_differ_vary():
    even, uneven = natural(walked(*[0.5] * 8), GO2), natural(walked(*[0.4, 0.6] * 4), GO2)
    assert even["stride_variation"] == pytest.approx(0.0, abs=1e-9)
    assert uneven["stride_variation"] == pytest.approx(0.2, abs=0.02)


def test_accelerations_are_those_of_the_joints():
    """Of sin(2 pi t) [rad/s]: a root mean square of 2 pi / sqrt(2) rad/s^2."""
    found = natural(walked(*[0.5] * 10), GO2)
    assert found["joint_acceleration"] == pytest.approx(2 * np.pi / np.sqrt(2), rel=0.03)
    assert found["left_right"] == 0.0 and found["cost_of_transport"] > 0.0 and set(found) == set(MEASURES)
    assert np.isnan(found["clip_distance"]), "no clip was given"


def test_who_fell_is_left_out():
    assert all(np.isnan(value) for value in natural(walked(*[0.5] * 8, stood=False), GO2).values())


def test_one_stride_does_not_vary():
    from gaitway_velocity.gait import find_swings, stances, window

    rec = walked(0.5)
    first, last = window(rec, rec.feet)
    swings = find_swings(rec.feet, stances(rec.feet, first, last)[0], first, last)
    assert np.isnan(stride_variation(swings, DT, np.array([True])))
