"""Logs of hung robots, cut into windows: stamps, gaps, gains, delays."""

import dataclasses
import functools

import numpy as np
import pytest
from gaitway_sim2real.identify.drive_log import DriveLog, IdentificationError, check_hung, gravity_in_base, steady_times
from gaitway_sim2real.identify.rough import guess_delay
from gaitway_sim2real.identify.windows import cut
from sim2real.identify.hung_robot import PERIOD


def log(seconds: float = 12.0, delay: float = 0.013, **changes) -> DriveLog:
    """Two joints of inertia 0.03 kg m^2 that follow random steps by a PD law, without noise."""
    return dataclasses.replace(_log(seconds, delay), **changes)


@functools.cache
def _log(seconds: float, delay: float) -> DriveLog:
    """In plain floats, at an eighth of the period."""
    rng = np.random.default_rng(0)
    count, fine = round(seconds / PERIOD), 8
    targets = np.repeat(rng.uniform(-0.3, 0.3, (count // 100 + 1, 2)), 100, axis=0)[:count]
    pos, vel, torque = np.zeros((3, count, 2))
    dt, late = PERIOD / fine, round(delay / PERIOD * fine)
    for joint in range(2):
        q = v = 0.0
        held = targets[:, joint].tolist()
        for step in range(count * fine):
            tau = 20.0 * (held[max(step - late, 0) // fine] - q) - 0.8 * v
            if step % fine == 0:
                pos[step // fine, joint], vel[step // fine, joint], torque[step // fine, joint] = q, v, tau
            v += dt * tau / 0.03
            q += dt * v
    time = PERIOD * np.arange(count)
    return DriveLog(
        source="two joints",
        time=time,
        pos=pos,
        vel=vel,
        torque=torque,
        gravity=np.tile([0.0, 0.0, -9.81], (count, 1)),
        frame_time=time,
        targets=targets,
        stiffness=np.full((count, 2), 20.0),
        damping=np.full((count, 2), 0.8),
    )


@pytest.mark.parametrize("delay", [0.0, 0.0045, 0.013, 0.03])
@pytest.mark.parametrize("torque", [True, False])
def test_the_delay_is_guessed_from_torques_and_from_accelerations(delay, torque):
    found = log(delay=delay)
    windows = cut([found if torque else dataclasses.replace(found, torque=None)])
    assert guess_delay(windows) == pytest.approx(delay, abs=2.5e-3)


def test_windows_hold_what_was_measured():
    windows = cut([log()])
    np.testing.assert_allclose(np.diff(windows.start), 1.75, atol=1e-6)
    index = round(windows.start[2] / PERIOD)
    np.testing.assert_allclose(windows.pos[2], log().pos[index : index + windows.steps], atol=1e-9)
    np.testing.assert_allclose(windows.start_pos, windows.pos[:, 0], atol=2e-3)
    np.testing.assert_allclose(windows.start_vel, windows.vel[:, 0], atol=0.3)  # a step may come just then
    assert not windows.scored[:, :125].any() and windows.scored[:, 125:].all()


def test_targets_act_late_and_by_their_share_of_a_step():
    windows = cut([log()])
    at, delay = windows.start[0], 0.0057
    found = windows.targets(delay, 0.001)[0]
    edges = at - delay + 0.001 * np.arange(len(found) + 1)
    fine = np.array([log().targets[int((t + 1e-12) / PERIOD)] for t in np.arange(edges[0], edges[50], 1e-5)])
    np.testing.assert_allclose(found[:50], fine.reshape(50, 100, 2).mean(1), atol=0.02)
    assert np.abs(windows.targets(delay + 1e-6, 0.001) - windows.targets(delay, 0.001)).max() < 1e-3  # smooth in it


def test_a_gap_is_not_scored_and_a_long_one_ends_a_window():
    whole = log()
    keep = np.ones(len(whole.time), bool)
    keep[3000:3030] = False
    names = ("time", "pos", "vel", "torque", "gravity")
    windows = cut([dataclasses.replace(whole, **{name: getattr(whole, name)[keep] for name in names})])
    missing = windows.start[:, None] + PERIOD * np.arange(windows.steps)
    inside = (missing > 6.0 + PERIOD) & (missing < 6.056)
    assert inside.any() and not windows.scored[inside].any()
    keep[3000:4000] = False
    windows = cut([dataclasses.replace(whole, **{name: getattr(whole, name)[keep] for name in names})])
    assert not ((windows.start < 6.2) & (windows.start + 2.0 > 7.8)).any()


def test_windows_have_one_set_of_gains():
    whole = log()
    stiffness = whole.stiffness.copy()
    stiffness[3000:] = 30.0
    windows = cut([dataclasses.replace(whole, stiffness=stiffness)])
    assert set(windows.stiffness[:, 0]) == {20.0, 30.0}
    assert not ((windows.start < 6.0) & (windows.start + 2.0 > 6.0)).any()


def test_flights_that_tell_nothing_are_refused():
    still = log(targets=np.zeros((6000, 2)))
    with pytest.raises(IdentificationError, match="moving joints"):
        cut([still])
    with pytest.raises(IdentificationError, match="moving joints"):
        cut([log(seconds=1.5)])


def test_a_base_that_turns_is_refused():
    gyro = 0.5 * np.random.default_rng(0).standard_normal((6000, 3))
    with pytest.raises(IdentificationError, match="to a stand"):
        check_hung(log(), gyro)
    assert check_hung(log(), 0.05 * gyro) is not None


def test_gravity_turns_with_the_base():
    half = np.sqrt(0.5)
    quats = np.array([[1.0, 0, 0, 0], [half, half, 0, 0], [half, 0, half, 0]])
    expected = 9.81 * np.array([[0, 0, -1.0], [0, -1.0, 0], [1.0, 0, 0]])
    np.testing.assert_allclose(gravity_in_base(quats), expected, atol=1e-9)


def test_ticks_take_the_jitter_out_of_stamps():
    rng = np.random.default_rng(0)
    tick = 1000 + 2.0 * np.arange(15000)
    sent = 1e-3 * (tick - 1000) * (1.0 + 2e-5)  # a clock that drifts
    stamps = np.maximum.accumulate(sent + 0.004 + rng.uniform(0.0, 0.005, len(tick)))
    found = steady_times(stamps, tick)
    assert np.abs(found - sent - np.mean(found - sent)).max() < 5e-4
    assert 0.004 < np.mean(found - sent) < 0.009
    np.testing.assert_array_equal(steady_times(stamps, np.zeros(15000)), stamps)  # a counter that is none
