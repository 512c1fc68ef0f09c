import numpy as np
import pytest
from gaitway_sim2real.digital_twin.command import Command
from gaitway_sim2real.digital_twin.drives import AMBIENT, DriveLimits, Drives, drive_limits
from gaitway_sim2real.digital_twin.quirks import Quirks
from gaitway_tasks.robots import GO2, H1
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters

NAMES = ("a", "b")
LIMITS = DriveLimits(
    effort=np.array([10.0, 20.0]),
    stall=np.array([12.0, np.inf]),
    no_load=np.array([6.0, np.inf]),
    damping=np.array([3.0, 1.0]),
)
DT = 0.002


def drives(limits=LIMITS, **quirks):
    return Drives(NAMES, limits, Quirks(**quirks), np.random.SeedSequence(0))


def frame(q=(0.0, 0.0), dq=(0.0, 0.0), tau=(0.0, 0.0), kp=(0.0, 0.0), kd=(0.0, 0.0), on=(True, True)):
    return Command(np.array(on), *(np.array(values, float) for values in (q, dq, tau, kp, kd)))


def torque(found, q, dq):
    constant, kp, kd, low, high = found
    return np.clip(constant - kp * q - kd * dq, low, high)


def at(drive, now=0.0, q=(0.0, 0.0), dq=(0.0, 0.0), last=(0.0, 0.0)):
    q, dq, last = (np.array(values, float) for values in (q, dq, last))
    return torque(drive.drive(now, DT, dq, last), q, dq)


def test_the_law_of_the_wire():
    drive = drives()
    drive.command(0.0, frame(q=(0.3, -0.2), dq=(0.1, 0.0), tau=(0.5, 1.0), kp=(20.0, 40.0), kd=(1.0, 2.0)))
    expected = [0.5 + 20 * (0.3 - 0.1) + 1.0 * (0.1 - 0.4), 1.0 + 40 * (-0.2 - 0.05) + 2.0 * (0.0 + 0.3)]
    np.testing.assert_allclose(at(drive, q=(0.1, 0.05), dq=(0.4, -0.3)), expected)


def test_limits_and_the_torque_speed_line():
    drive = drives()
    drive.command(0.0, frame(tau=(100.0, -100.0)))
    np.testing.assert_allclose(at(drive), [10.0, -20.0])
    np.testing.assert_allclose(at(drive, dq=(3.0, -300.0)), [6.0, -20.0])  # half of the stall torque at half the speed
    drive.command(0.0, frame(tau=(-100.0, 100.0)))
    np.testing.assert_allclose(at(drive, dq=(3.0, 0.0)), [-10.0, 20.0])  # braking is not limited by the line


def test_a_motor_that_is_off_gives_nothing():
    drive = drives()
    drive.command(0.0, frame(q=(1.0, 1.0), tau=(2.0, 2.0), kp=(5.0, 5.0), kd=(1.0, 1.0), on=(True, False)))
    np.testing.assert_allclose(at(drive, dq=(1.0, 1.0)), [6.0, 0.0])


def test_no_torque_before_the_first_command_and_after_release():
    drive = drives()
    assert at(drive, q=(1.0, 1.0), dq=(1.0, 1.0)).tolist() == [0.0, 0.0]
    drive.command(0.0, frame(tau=(2.0, 2.0)))
    drive.release()
    assert at(drive).tolist() == [0.0, 0.0]


def test_a_command_within_a_step_counts_for_its_share():
    drive = drives()
    drive.command(0.0, frame(tau=(1.0, 1.0)))
    drive.command(0.0015, frame(tau=(5.0, 5.0)))
    np.testing.assert_allclose(at(drive, now=0.0), 0.75 * 1.0 + 0.25 * 5.0)
    np.testing.assert_allclose(at(drive, now=0.002), 5.0)


def test_two_commands_within_a_step():
    drive = drives()
    for due, tau in ((0.0, 1.0), (0.0005, 2.0), (0.0015, 4.0)):
        drive.command(due, frame(tau=(tau, tau)))
    np.testing.assert_allclose(at(drive, now=0.0), 0.25 * 1.0 + 0.5 * 2.0 + 0.25 * 4.0)


def test_the_last_command_holds_unless_there_is_a_timeout():
    for timeout, expected in ((0.0, [1.0, 1.0]), (0.05, [-3.0, -1.0])):
        drive = drives(command_timeout=timeout)
        drive.command(0.0, frame(tau=(1.0, 1.0)))
        np.testing.assert_allclose(at(drive, now=0.0, dq=(1.0, 1.0)), [1.0, 1.0])
        np.testing.assert_allclose(at(drive, now=0.1, dq=(1.0, 1.0)), expected)


def test_hidden_gains_and_strength():
    known = {"a": JointParameters(stiffness_scale=1.2, damping_scale=0.5, strength=0.9)}
    drive = drives(parameters=RobotParameters(robot="go2", joints=known))
    drive.command(0.0, frame(q=(0.1, 0.1), dq=(0.5, 0.5), kp=(10.0, 10.0), kd=(1.0, 1.0)))
    np.testing.assert_allclose(at(drive, dq=(1.0, 1.0)), [0.9 * (12.0 * 0.1 - 0.5 * 0.5), 10.0 * 0.1 - 0.5])
    drive.command(0.0, frame(tau=(100.0, 100.0)))
    np.testing.assert_allclose(at(drive), [9.0, 20.0])


def test_encoder_bias_moves_what_the_drive_holds():
    drive = drives(encoder_bias=0.05)
    assert 0.0 < np.abs(drive.encoder_bias).max() < 0.3
    drive.command(0.0, frame(kp=(10.0, 10.0)))
    np.testing.assert_allclose(at(drive, q=tuple(-drive.encoder_bias)), 0.0, atol=1e-12)


def test_a_dead_motor():
    drive = drives(dead_motor="b")
    drive.command(0.0, frame(tau=(5.0, 5.0), kd=(1.0, 1.0)))
    np.testing.assert_allclose(at(drive, dq=(1.0, 1.0)), [4.0, 0.0])


def test_a_latched_motor_keeps_its_torque_for_a_while():
    drive = drives(latch_rate=1e9, latch_duration=0.1)
    drive.command(0.0, frame(tau=(5.0, 5.0), kp=(3.0, 3.0), kd=(1.0, 1.0)))
    np.testing.assert_allclose(at(drive, now=0.0, q=(1.0, 1.0), dq=(2.0, 2.0), last=(1.5, -2.5)), [1.5, -2.5])
    np.testing.assert_allclose(at(drive, now=0.05, q=(2.0, 0.0), dq=(0.0, 2.0), last=(7.0, 7.0)), [1.5, -2.5])
    np.testing.assert_allclose(at(drive, now=0.1001, last=(0.25, 0.75)), [0.25, 0.75])  # struck again


def test_the_battery_drains_and_sags():
    drive = drives(battery=1.0, battery_drain=0.1, battery_sag=0.5)
    drive.command(0.0, frame(tau=(100.0, 4.0)))
    for step in range(1000):
        last = at(drive, now=step * DT)
    assert drive.battery == pytest.approx(0.8)
    np.testing.assert_allclose(last, [9.0, 3.6], rtol=1e-3)


def test_motors_warm_with_the_square_of_their_torque():
    drive = drives(heating=2.0)
    for step in range(500):
        at(drive, now=step * DT, last=(10.0, 10.0))
    rise = drive.temperature - AMBIENT
    assert rise[0] == pytest.approx(2.0, rel=0.02) and rise[1] == pytest.approx(0.5, rel=0.02)


def test_lines_are_stretched_to_the_hardware():
    names = GO2.hardware.joint_names
    limits = drive_limits(GO2, names, GO2.hardware.effort_limit, GO2.hardware.velocity_limit, GO2.hardware.damping)
    calf = names.index("RL_calf_joint")
    assert limits.effort[calf] == limits.stall[calf] == 45.43 and limits.no_load[calf] == 15.7
    hardware = H1.hardware
    without = drive_limits(H1, hardware.joint_names, hardware.effort_limit, hardware.velocity_limit, hardware.damping)
    assert np.isinf(without.stall).all() and np.isinf(without.no_load).all()
