"""Whatever a ROS 2 network says of a robot's joints and IMU: it is read right, or left out, or told."""

from __future__ import annotations

import numpy as np
import pytest
from gaitway_onboard.interface import DeployError
from gaitway_onboard.wire.declarations import IMU, JOINT_STATE
from gaitway_onboard.wire.idl import HEADER, encode
from gaitway_onboard.wire.ros import encode_joint_state

from .ros2_by_hand import NAMES, pair

pytestmark = pytest.mark.hostile("deployment")
STAMP = 1_700_000_000_000_000_000
GOOD = dict.fromkeys(("position", "velocity", "effort"), [0.5] * 12)


def joints(names=NAMES, stamp=STAMP, **changes):
    return encode_joint_state(stamp, names, *({**GOOD, **changes}.values()))


HOSTILE = {
    "nothing": b"",
    "no names": joints([], position=[], velocity=[], effort=[]),
    "names alone": joints(position=[], velocity=[], effort=[]),
    "a joint missing": joints(NAMES[:11], position=[0.5] * 11, velocity=[0.5] * 11, effort=[]),
    "a joint twice": joints([*NAMES[:11], NAMES[0]]),
    "a joint twice, and all": joints([*NAMES, NAMES[0]], position=[0.5] * 13, velocity=[0.5] * 13, effort=[]),
    "fewer numbers than names": joints(position=[0.5] * 11),
    "fewer velocities than names": joints(velocity=[0.5] * 3),
    "no velocities": joints(velocity=[]),
    "a hundred thousand joints": joints([*NAMES, *("x" * 99_988)], position=[0.5] * 100_000, velocity=[], effort=[]),
    "a long name": joints([*NAMES, 10**6 * "x"], position=[0.5] * 13, velocity=[0.5] * 13, effort=[]),
    "a count without end": joints()[:20] + b"\xff\xff\xff\x7f" + joints()[24:],
    "another message": encode(IMU, {"orientation": {"w": 1.0}}),
    "big endian": b"\0\0" + joints()[2:],
}


def connected():
    robot, hand = pair()
    robot.connect()
    robot.take_over()
    robot.sleep_until(robot.clock() + 0.002)
    return robot, hand


@pytest.mark.parametrize("payload", HOSTILE.values(), ids=HOSTILE)
def test_joint_states_that_are_none_change_nothing(payload):
    robot, hand = connected()
    before = robot.read()
    for _ in range(3):  # what was refused once is not known the second time
        hand._states.send(payload)
        assert robot.read() is before
    hand.position[:] = 0.25
    robot.sleep_until(robot.clock() + 0.002)
    np.testing.assert_array_equal(robot.read().joint_pos, np.full(12, 0.25))


@pytest.mark.parametrize("payload", HOSTILE.values(), ids=HOSTILE)
def test_a_robot_that_says_nothing_else_is_not_driven(payload):
    robot, hand = pair()
    hand.joints_speak = False
    hand.bus.attach(lambda deadline: hand._states.send(payload))
    with pytest.raises(DeployError, match="joint_states") as refused:
        robot.connect(0.2)
    assert len(str(refused.value)) < 400 and hand.heard() == []


def test_joints_in_another_order_in_each_message():
    robot, hand = connected()
    rng = np.random.default_rng(0)
    values = dict(zip(NAMES, rng.normal(size=12), strict=True))
    for number in range(50):
        names = rng.permutation(NAMES)
        position = [values[name] for name in names]
        hand._states.send(joints([str(name) for name in names], STAMP + 10**12 + number, position=position))
        np.testing.assert_array_equal(robot.read().joint_pos, list(values.values()))


@pytest.mark.parametrize("field", ["position", "velocity"])
def test_numbers_that_are_none_are_told(field):
    robot, hand = connected()
    getattr(hand, field)[3] = np.nan
    robot.sleep_until(robot.clock() + 0.002)
    signals = robot.read()
    assert np.isnan(signals.joint_pos if field == "position" else signals.joint_vel).sum() == 1
    robot.write(np.zeros(12), np.full(12, 50.0), np.ones(12))
    command = hand.heard()[-1]
    assert np.isfinite(command).all()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        HEADER,
        HEADER + b"\xff" * 400,
        encode(JOINT_STATE, {}),
        encode(IMU, {"header": {"frame_id": 10**5 * "x"}})[:-8],
        encode(IMU, {"orientation_covariance": [-1.0] + [0.0] * 8}),
    ],
)
def test_an_imu_message_that_is_none_changes_nothing(payload):
    robot, hand = connected()
    before = robot.read()
    hand._imus.send(payload)
    assert robot.read() is before


def test_stamps_of_the_imu_that_go_back():
    robot, hand = connected()
    before = robot.read()
    hand.quat[:] = 0.0, 1.0, 0.0, 0.0
    hand.lag, hand.joints_speak = 0.2, False
    robot.sleep_until(robot.clock() + 0.002)
    signals = robot.read()
    assert signals is before and signals.health.behind == pytest.approx(0.2, abs=0.01)
