import dataclasses
import functools

import numpy as np
import pytest
from gaitway_onboard.rotation import quat_apply_inverse, quat_conjugate, quat_mul
from gaitway_onboard.transports.open import Connection
from gaitway_onboard.transports.unitree import UnitreeRobot
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.digital_twin.faults import EMPTY, Fault, FaultError
from gaitway_sim2real.digital_twin.twin import open_twin

PERIOD = 0.002
JOINT = "RL_thigh_joint"


@pytest.fixture
def pair():
    return take_over(hung=True, own_controller=False)


def take_over(**settings):
    bus = MemoryBus()
    twin = open_twin("unitree-go2", bus.join("twin"), **settings)
    bus.attach(twin.advance)
    robot = UnitreeRobot(twin.hardware, Connection(bus=bus, own_controller=False))
    robot.connect()
    robot.take_over()
    if twin.sport is not None:
        twin.sport.release()
    go_on(twin, robot, 0.1)
    return twin, robot


def go_on(twin, robot, seconds):
    for _ in range(round(seconds / PERIOD)):
        robot.write(twin.body.default_pos, np.full(12, 60.0), np.full(12, 3.0))
        robot.sleep_until(robot.clock() + PERIOD)
        signals = robot.read()
    return signals


def tipped(fault=None, before=0.0):
    """A twin that is tipped after ``before`` seconds, so that everything moves, its robot, and the last signals."""
    twin, robot = take_over(standing=True)
    if before:
        go_on(twin, robot, before)
    twin.body.tip(0.2)
    if fault is not None:
        twin.inject(fault, joint=JOINT)
    return twin, robot, go_on(twin, robot, 0.06)


@functools.cache
def honest(before=0.0):
    """The same without a fault; read-only."""
    return tipped(before=before)


def number(robot):
    return robot.joint_names.index(JOINT)


SIGNS = {
    Fault.SILENCE: lambda signals, robot: robot.clock() - signals.stamp > 0.015,
    Fault.FROZEN: lambda signals, robot: (
        robot.clock() - signals.stamp < 0.003 and robot.clock() - 1e-3 * signals.health.tick > 0.015
    ),
    Fault.REWIND: lambda signals, robot: signals.health.behind > 0.05 and robot.clock() - signals.stamp > 0.015,
    Fault.CLOCK: lambda signals, robot: 1e-3 * signals.health.tick - robot.clock() > 0.005,
    Fault.CHECKSUM: lambda signals, robot: signals.health.corrupt >= 8 and robot.clock() - signals.stamp > 0.015,
    Fault.IMU_NAN: lambda signals, robot: np.isnan(signals.imu_quat_wxyz).all() and np.isnan(signals.gyro).all(),
    Fault.IMU_ZERO: lambda signals, robot: not signals.imu_quat_wxyz.any(),
    Fault.TILT: lambda signals, robot: 2.0 * np.arcsin(signals.imu_quat_wxyz[1]) == pytest.approx(1.3, abs=0.1),
    Fault.JOINT_NAN: lambda signals, robot: np.flatnonzero(np.isnan(signals.joint_pos)).tolist() == [number(robot)],
    Fault.JOINT_RANGE: lambda signals, robot: signals.joint_pos[number(robot)] == pytest.approx(4.5379 + 0.5),
    Fault.JOINT_JUMP: lambda signals, robot: abs(signals.joint_pos[number(robot)] - 0.8) > 0.5,
    Fault.JOINT_SPEED: lambda signals, robot: signals.joint_vel[number(robot)] == pytest.approx(60.2),
    Fault.TEMPERATURE: lambda signals, robot: (
        signals.health.motor_temperature[number(robot)] == robot.hardware.max_motor_temperature + 15.0
    ),
    Fault.BATTERY: lambda signals, robot: signals.health.battery == pytest.approx(EMPTY),
    Fault.LOST: lambda signals, robot: signals.health.motor_lost[number(robot)] >= 8,
    Fault.STOP: lambda signals, robot: signals.health.remote.buttons >= {"L2", "B"},
    Fault.SELECT: lambda signals, robot: signals.health.remote.buttons >= {"select"},
    Fault.CLOCK_SLOW: lambda signals, robot: robot.clock() - 1e-3 * signals.health.tick > 0.005,
    Fault.CLOCK_STANDS: lambda signals, robot: (
        robot.clock() - signals.stamp < 0.003 and robot.clock() - 1e-3 * signals.health.tick > 0.01
    ),
    Fault.CUT: lambda signals, robot: robot.clock() - signals.stamp > 0.015,
    Fault.SPARSE: lambda signals, robot: robot.clock() - signals.stamp > 0.01,
}


@pytest.mark.parametrize("fault", SIGNS)
def test_it_begins_shows_and_ends(pair, fault):
    twin, robot = pair
    sign = SIGNS[fault]
    twin.inject(fault.value, after=0.01, duration=0.02, joint=JOINT)
    assert not sign(go_on(twin, robot, 0.008), robot), "before it begins"
    assert sign(go_on(twin, robot, 0.02), robot), "while it lasts"
    if fault is Fault.CHECKSUM:
        before = robot.read().health.corrupt
        assert go_on(twin, robot, 0.02).health.corrupt - before <= 2
    elif fault is not Fault.LOST:  # a counter does not go back at once
        assert not sign(go_on(twin, robot, 0.02), robot), "after it has ended"


def test_every_fault_of_the_wire_is_tried():
    others = {Fault.FALL, Fault.FLOOR, Fault.WRITER, Fault.REPLAY, Fault.SECOND_ROBOT, Fault.TAKEN, *LIES, *BROKEN}
    assert set(SIGNS) | others == set(Fault) and not others & set(SIGNS)


LIES = {
    Fault.GYRO_SIGN: {"gyro"},
    Fault.GYRO_OFF: {"gyro"},
    Fault.IMU_SIGN: {"imu_quat_wxyz"},
    Fault.IMU_DRIFT: {"imu_quat_wxyz"},
    Fault.IMU_FROZEN: {"imu_quat_wxyz", "gyro", "accelerometer"},
    Fault.JOINT_FROZEN: {"joint_pos", "joint_vel", "joint_torque"},
    Fault.ENCODERS_FROZEN: {"joint_pos"},
    Fault.SENSORS_FROZEN: {"imu_quat_wxyz", "gyro", "accelerometer", "joint_pos", "joint_vel", "joint_torque"},
    Fault.SPEEDS_ZERO: {"joint_vel"},
    Fault.SPEEDS_SIGN: {"joint_vel"},
    Fault.SPEEDS_DEGREES: {"joint_vel"},
    Fault.TORQUES_FROZEN: {"joint_torque"},
    Fault.GYRO_NAN: {"gyro"},
    Fault.GYRO_ZERO: {"gyro"},
    Fault.GYRO_FROZEN: {"gyro"},
    Fault.GYRO_AXES: {"gyro"},
    Fault.IMU_ORDER: {"imu_quat_wxyz"},
    Fault.IMU_NORM: {"imu_quat_wxyz"},
    Fault.IMU_SLIP: {"imu_quat_wxyz"},
    Fault.ACCELEROMETER_SIGN: {"accelerometer"},
    Fault.ACCELEROMETER_ZERO: {"accelerometer"},
    Fault.IMU_CREEP: {"imu_quat_wxyz", "gyro", "accelerometer"},
    Fault.JOINT_INF: {"joint_pos"},
    Fault.JOINT_SPEED_NAN: {"joint_vel"},
    Fault.JOINT_TORQUE_NAN: {"joint_torque"},
    Fault.JOINT_SIGN: {"joint_pos"},
    Fault.JOINT_DRIFT: {"joint_pos"},
    Fault.JOINT_FLICKER: {"joint_pos"},
    Fault.LATER: set(),
    Fault.POWER: set(),
    Fault.MOTOR: set(),
}
"""Readings that each fault falsifies; none where the robot itself differs from its reports."""
READINGS = ("joint_pos", "joint_vel", "joint_torque", "imu_quat_wxyz", "gyro", "accelerometer")


@pytest.mark.parametrize("fault", LIES)
def test_a_lie_is_about_what_it_says_and_nothing_else(fault):
    (twin, robot, told), (other, _, true) = tipped(fault), honest()
    differ = {name for name in READINGS if not np.array_equal(getattr(told, name), getattr(true, name))}
    if fault is Fault.LATER:
        assert robot.clock() - 1e-3 * told.health.tick > robot.clock() - 1e-3 * true.health.tick + 0.003
    elif fault in (Fault.POWER, Fault.MOTOR):
        dead = np.arange(12) == number(robot) if fault is Fault.MOTOR else np.ones(12, bool)
        assert not told.joint_torque[dead].any() and true.joint_torque[dead].all() and told.joint_torque[~dead].all()
    else:
        assert differ == LIES[fault]
        np.testing.assert_array_equal(twin.truth().joint_pos, other.truth().joint_pos)


def sag(twin, signals):
    return np.abs(signals.joint_pos - twin.body.default_pos).mean()


BROKEN = {
    Fault.CLOCK_JUMP: lambda twin, honest, told, true, joint: told.health.tick - true.health.tick > 9000,
    Fault.RESTART: lambda twin, honest, told, true, joint: told.health.behind > 0.05,
    Fault.CORRUPT: lambda twin, honest, told, true, joint: 2 <= told.health.corrupt <= 4,
    Fault.DEAF: lambda twin, honest, told, true, joint: twin.counters.accepted < honest.counters.accepted - 20,
    Fault.HEARD_LATER: lambda twin, honest, told, true, joint: twin.counters.accepted < honest.counters.accepted,
    Fault.WEAK: lambda twin, honest, told, true, joint: sag(twin, told) > 1.3 * sag(honest, true),
    Fault.RUNAWAY: lambda twin, honest, told, true, joint: (
        told.joint_torque[joint] > true.joint_torque[joint] + 3.0
    ),
    Fault.MOTOR_SIGN: lambda twin, honest, told, true, joint: told.joint_torque[joint] * true.joint_torque[joint] < 0.0,
    Fault.MOTOR_STUCK: lambda twin, honest, told, true, joint: (
        told.joint_torque[joint] == pytest.approx(twin.drives.stuck.get(joint, 1e9), rel=1e-5)
    ),
}  # fmt: skip
"""Symptom of each fault."""


@pytest.mark.parametrize("fault", BROKEN)
def test_what_is_broken_shows(fault):
    (twin, robot, told), (other, _, true) = tipped(fault, before=0.1), honest(before=0.1)
    assert BROKEN[fault](twin, other, told, true, number(robot))
    if fault is not Fault.MOTOR_SIGN:
        assert not BROKEN[fault](other, twin, true, told, number(robot))


def test_faults_spoil_what_is_told_and_not_what_is(pair):
    twin, robot = pair
    for fault in (Fault.JOINT_RANGE, Fault.TILT, Fault.TEMPERATURE):
        twin.inject(fault, joint=JOINT)
    go_on(twin, robot, 0.05)
    assert twin.truth().tilt < 0.1 and np.abs(twin.truth().joint_pos - twin.body.default_pos).max() < 0.3
    assert twin.drives.temperature.max() == 30.0


def test_a_tipped_robot_falls_and_is_let_go():
    twin, robot = take_over(standing=True)
    assert twin.truth().tilt < 0.1 and twin.truth().foot_contact.all()
    twin.inject(Fault.FALL)
    tilts = []
    for _ in range(40):
        go_on(twin, robot, 0.02)
        tilts.append(twin.truth().tilt)
    assert min(tilts[15:]) > 1.0, "it lies on its side or its back"
    assert not twin.body.data.xfrc_applied.any()


def test_a_second_writer_is_there_for_the_controller_to_see(pair):
    twin, robot = pair
    assert robot.read().health.other_writers == ()
    heard = robot.bus.join("ear").subscriber(dataclasses.replace(robot.command_topic, depth=1000))
    twin.inject(Fault.WRITER)
    assert go_on(twin, robot, 0.6).health.other_writers == ("twin",)
    assert len({writer for _, _, writer in heard.take_from()}) == 1, "it sends nothing"


def test_the_own_controller_that_is_switched_on_again_shows():
    bus = MemoryBus()
    twin = open_twin("unitree-go2", bus.join("twin"), hung=True)
    bus.attach(twin.advance)
    robot = UnitreeRobot(twin.hardware, Connection(bus=bus))
    robot.connect()
    robot.take_over()
    twin.inject(Fault.TAKEN, after=0.1)
    assert go_on(twin, robot, 0.1).health.taken_by == "" and not twin.sport.active
    assert go_on(twin, robot, 0.15).health.taken_by == twin.sport.name and twin.sport.active
    refused = twin.counters.refused
    robot.write(np.zeros(12), np.full(12, 9.0), np.ones(12))
    go_on(twin, robot, 0.01)
    assert twin.counters.refused > refused, "and the motors do not obey any more"


@pytest.mark.parametrize("fault", [Fault.REPLAY, Fault.SECOND_ROBOT])
def test_states_of_another_writer_are_there_and_not_believed(pair, fault):
    twin, robot = pair
    ear = robot.bus.subscriber(robot.state_topic)
    twin.inject(fault, after=0.01, duration=0.1)
    assert go_on(twin, robot, 0.008).health.other_sources == ()
    ear.take_from()
    for step in range(75):
        signals = go_on(twin, robot, PERIOD)
        assert signals.health.tick == pytest.approx(1e3 * twin.time, abs=1.0), "the robot's own, each time"
        if step == 20:
            assert len({writer for _, _, writer in ear.take_from()}) == 2, "both sent"
    assert ["twin" in who for who in signals.health.other_sources] == [True], "and it is not forgotten"
    assert len({writer for _, _, writer in ear.take_from()}) == 1, "it has ended"


def test_what_cannot_be_provoked(pair):
    twin, _ = pair
    with pytest.raises(FaultError, match="no controller of its own"):
        twin.inject(Fault.TAKEN)
    with pytest.raises(FaultError, match="no fault 'earthquake'; there are silence"):
        twin.inject("earthquake")
    with pytest.raises(FaultError, match="no joint 'knee'"):
        twin.inject(Fault.JOINT_NAN, joint="knee")
    twin.body.hung = True
    with pytest.raises(FaultError, match="hangs"):
        twin.inject(Fault.FALL)


def test_what_a_creeping_imu_says_agrees_with_itself():
    """The orientation turns as the gyroscope says, and the accelerometer feels where it says that up is."""
    twin, robot = take_over(standing=True)
    twin.inject("imu-creep")
    before = go_on(twin, robot, 0.5)
    after = go_on(twin, robot, 0.002)
    turned = 2.0 * quat_mul(quat_conjugate(before.imu_quat_wxyz), after.imu_quat_wxyz)[1:] / 0.002
    np.testing.assert_allclose(turned, after.gyro, atol=0.05)
    up = quat_apply_inverse(after.imu_quat_wxyz, np.array([0.0, 0.0, 1.0]))
    assert up @ after.accelerometer / np.linalg.norm(after.accelerometer) > 0.999 and abs(up[0]) > 0.04
