"""A robot under ros2_control: what is read, what is sent, and what is refused."""

import numpy as np
import pytest
from gaitway_onboard.interface import DeployError
from gaitway_onboard.wire.declarations import FLOAT64_MULTI_ARRAY, IMU, JOINT_STATE, TWIST
from gaitway_onboard.wire.idl import decode, encode
from gaitway_onboard.wire.ros import encode_joint_state, ros_topic
from gaitway_tasks.robots import ANYMAL_C

from .ros2_by_hand import NAMES, pair

CANONICAL = [ANYMAL_C.joint_names.index(name) for name in NAMES]
"""Index of each joint of the controller's order in the robot's own."""
RNG = np.random.default_rng(11)


def driving(**changes):
    robot, hand = pair(**changes)
    robot.connect()
    robot.take_over()
    hand.heard()
    return robot, hand


def step(robot):
    robot.sleep_until(robot.clock() + 0.002)
    return robot.read()


def test_joints_come_by_name_and_the_imu_in_the_base_frame():
    half = np.sqrt(0.5)
    robot, hand = pair(imu_quat_wxyz=(half, 0.0, half, 0.0))  # the sensor's x axis points down
    hand.position, hand.velocity, hand.effort = RNG.normal(size=(3, 12))
    # The base is level and turned left: forward is the world's y.
    hand.quat = product([half, 0, 0, half], [half, 0, half, 0])
    hand.gyro, hand.acceleration = np.array([0.5, 0.25, 0.0]), np.array([-9.81, 0.0, 1.0])
    robot.connect()
    signals = step(robot)
    np.testing.assert_array_equal(signals.joint_pos, hand.position[CANONICAL])
    np.testing.assert_array_equal(signals.joint_vel, hand.velocity[CANONICAL])
    np.testing.assert_array_equal(signals.joint_torque, hand.effort[CANONICAL])
    np.testing.assert_allclose(signals.imu_quat_wxyz, [half, 0, 0, half], atol=1e-12)
    np.testing.assert_allclose(signals.gyro, [0.0, 0.25, -0.5], atol=1e-12)
    np.testing.assert_allclose(signals.accelerometer, [1.0, 0.0, 9.81], atol=1e-12)
    assert signals.stamp == robot.clock() and signals.health.tick > 1_700_000_000_000_000_000


def product(a, b):
    (w, *v), (s, *u) = a, b
    return np.array([w * s - np.dot(v, u), *(w * np.array(u) + s * np.array(v) + np.cross(v, u))])


def test_a_mounting_without_symmetry_is_undone():
    mounting = np.array([0.8, 0.1, -0.5, 0.3])
    mounting /= np.linalg.norm(mounting)
    base = np.array([0.3, 0.7, -0.2, 0.6])
    base /= np.linalg.norm(base)
    robot, hand = pair(imu_quat_wxyz=tuple(mounting))
    hand.quat = product(base, mounting)
    spin = np.array([0.3, -0.7, 1.1])
    hand.gyro = product(product(mounting * [1, -1, -1, -1], [0, *spin]), mounting)[1:]  # base to sensor
    robot.connect()
    signals = step(robot)
    np.testing.assert_allclose(signals.imu_quat_wxyz, base, atol=1e-9)
    np.testing.assert_allclose(signals.gyro, spin, atol=1e-9)


def test_the_older_of_joints_and_imu_counts():
    for silence in ("joints_speak", "imu_speaks"):
        robot, hand = pair()
        robot.connect()
        last = step(robot).stamp
        setattr(hand, silence, False)
        for _ in range(10):
            signals = step(robot)
        assert signals.stamp == last and robot.clock() - last == pytest.approx(0.02)


def test_states_of_other_joints_on_the_same_topic_are_passed_over():
    robot, hand = pair()
    gripper = hand.bus.join("gripper").publisher(ros_topic("/joint_states", JOINT_STATE))
    hand.bus.attach(lambda deadline: gripper.send(encode_joint_state(1, ["finger"], [0.1], [0.0])))
    robot.connect()
    robot.take_over()
    for _ in range(300):
        hand.position = RNG.normal(size=12)
        robot.sleep_until(robot.clock() + 0.002)
        assert robot.read().health.other_sources == ()
        np.testing.assert_array_equal(robot.read().joint_pos, hand.position[CANONICAL])


def test_effort_is_the_pd_law_within_the_limit():
    robot, hand = driving()
    kp, kd = RNG.uniform(10, 60, 12), RNG.uniform(0.5, 5, 12)
    for scale in (0.01, 1.0, 100.0, 1e300):
        hand.position, hand.velocity = RNG.normal(size=(2, 12))
        step(robot)
        targets = scale * RNG.normal(size=12)
        robot.write(targets, kp, kd)
        wanted = kp * (targets - hand.position[CANONICAL]) - kd * hand.velocity[CANONICAL]
        sent = hand.heard()[-1]
        np.testing.assert_allclose(sent, np.clip(wanted, -80, 80), rtol=1e-5)
        assert (np.abs(sent) <= 80.0).all()


@pytest.mark.parametrize("message", ["Float64MultiArray", "JointTrajectory"])
def test_positions_make_the_drives_exert_the_torque_asked_for(message):
    robot, hand = driving(interface="position", message=message)
    for scale in (0.01, 1.0, 100.0):
        hand.position, hand.velocity = RNG.normal(size=(2, 12))
        pos, vel = hand.position[CANONICAL], hand.velocity[CANONICAL]
        step(robot)
        kp, kd, targets = RNG.uniform(10, 60, 12), RNG.uniform(0.5, 5, 12), scale * RNG.normal(size=12)
        robot.write(targets, kp, kd)
        exerted = 60.0 * (hand.heard()[-1] - pos) - 5.0 * vel
        np.testing.assert_allclose(exerted, np.clip(kp * (targets - pos) - kd * vel, -80, 80), rtol=1e-5, atol=1e-9)
        assert (np.abs(exerted) <= 80.0).all()


def test_with_the_drives_own_gains_a_position_is_the_target():
    robot, hand = driving(interface="position")
    hand.position, hand.velocity = 0.1 * RNG.normal(size=(2, 12))
    step(robot)
    targets = 0.2 * RNG.normal(size=12)
    robot.write(targets, np.full(12, 60.0), np.full(12, 5.0))
    np.testing.assert_allclose(hand.heard()[-1], targets, atol=1e-12)


@pytest.mark.parametrize("interface", ["effort", "position"])
def test_damping_resists_motion_only(interface):
    robot, hand = driving(interface=interface)
    hand.velocity = RNG.normal(size=12)
    step(robot)
    robot.damp()
    sent, pos, vel = hand.heard()[-1], hand.position[CANONICAL], hand.velocity[CANONICAL]
    exerted = sent if interface == "effort" else 60.0 * (sent - pos) - 5.0 * vel
    np.testing.assert_allclose(exerted, -2.0 * vel, atol=1e-9)


@pytest.mark.parametrize("interface", ["effort", "position"])
def test_an_old_velocity_is_not_opposed(interface):
    robot, hand = driving(interface=interface)
    hand.position, hand.velocity = RNG.normal(size=(2, 12))
    step(robot)
    hand.joints_speak = False
    for _ in range(20):
        step(robot)
        robot.damp()
    commands, pos = hand.heard(), hand.position[CANONICAL]
    still = np.zeros(12) if interface == "effort" else pos
    assert (commands[10] != still).all(), "20 ms without states"
    np.testing.assert_array_equal(commands[-1], still)
    hand.joints_speak = True
    step(robot)
    robot.damp()
    assert (hand.heard()[-1] != still).all()


@pytest.mark.parametrize("interface", ["effort", "position"])
@pytest.mark.parametrize("bad", ["targets", "position"])
def test_no_number_becomes_no_motion(interface, bad):
    robot, hand = driving(interface=interface)
    hand.position = np.full(12, 0.5)
    step(robot)
    robot.write(np.full(12, 0.5), np.full(12, 60.0), np.full(12, 5.0))
    before = hand.heard()[-1]
    targets = np.full(12, 0.5)
    if bad == "targets":
        targets[3] = np.nan
    else:
        hand.position = hand.position.copy()
        hand.position[CANONICAL[3]] = np.nan
        step(robot)
    robot.write(targets, np.full(12, 60.0), np.full(12, 5.0))
    after = hand.heard()[-1]
    assert np.isfinite(after).all()
    assert after[3] == (0.0 if interface == "effort" else before[3])


def test_a_controller_that_forwards_efforts_is_left_with_zeros():
    robot, hand = driving()
    hand.velocity = RNG.normal(size=12)
    step(robot)
    robot.damp()
    assert np.abs(hand.heard()[-1]).min() > 0
    stop = robot.safe_stop()
    payload = bytes.fromhex(stop.settings["payload"])
    assert (
        stop.settings["topic"] == robot.command_topic.name and (decode(FLOAT64_MULTI_ARRAY, payload)["data"] == 0).all()
    )
    robot.close()
    assert (hand.heard()[-1] == 0).all()


def test_positions_end_where_they_were():
    robot, hand = driving(interface="position")
    assert robot.safe_stop() is None
    robot.close()
    assert hand.heard() == []


def test_nothing_is_sent_before_taking_over():
    robot, hand = pair()
    robot.connect()
    with pytest.raises(DeployError, match="take over"):
        robot.damp()
    robot.close()
    assert hand.heard() == []
    with pytest.raises(DeployError, match="connect"):
        pair()[0].take_over()


def test_a_second_writer_is_refused_and_later_told():
    robot, hand = pair()
    robot.connect()
    other = hand.bus.join("rqt")
    other.publisher(robot.command_topic)
    with pytest.raises(DeployError, match="rqt also writes /effort/commands"):
        robot.take_over()
    other.close()
    robot.take_over()
    hand.bus.join("rviz").publisher(robot.command_topic)
    for _ in range(300):
        signals = step(robot)
    assert signals.health.other_writers == ("rviz",)


def test_efforts_need_joint_states_at_their_rate():
    robot, hand = pair(rate=2000.0)
    with pytest.raises(DeployError, match=r"/joint_states comes every 2.0 ms, and torques .* every 0.5 ms"):
        robot.connect()
    pair(rate=2000.0, interface="position")[0].connect()
    robot, hand = pair()
    count = iter(range(100))
    speak = hand.speak
    hand.speak = lambda: speak() if next(count) < 5 else None
    with pytest.raises(DeployError, match="only 5 messages came on /joint_states within"):
        robot.connect(0.1)


def refusal(prepare, **changes):
    robot, hand = pair(**changes)
    prepare(hand)
    with pytest.raises(DeployError) as caught:
        robot.connect(0.1)
    return str(caught.value)


def test_why_there_is_no_connection():
    def publish(topic, kind, payload):
        def prepare(hand):
            hand.joints_speak = kind is not JOINT_STATE
            hand.imu_speaks = kind is not IMU
            publisher = hand.bus.publisher(ros_topic(topic, kind))
            hand.bus.attach(lambda deadline: publisher.send(payload))

        return prepare

    def lacking(hand):
        hand.names[4] = "LH_HFE_joint"

    def still(hand):
        hand.velocity = np.zeros(0)

    def off(hand):
        hand.position = np.full(12, np.nan)

    def mute(hand):
        hand.joints_speak = False

    assert "/joint_states lacks LH_HFE" in refusal(lacking)
    assert "/joint_states has no velocities" in refusal(still)
    assert "are the drives switched on" in refusal(off)
    unoriented = encode(IMU, {"orientation_covariance": [-1.0] + [0.0] * 8})
    assert "/imu has no orientation" in refusal(publish("/imu", IMU, unoriented))
    assert "JointState" in refusal(publish("/joint_states", JOINT_STATE, b"\0\1\0\0nonsense"))
    assert "robot offers /joint_states, but nothing came" in refusal(mute)

    assert "nothing on /imu/data" in silent_topic("/imu/data")
    assert "/imu carries geometry_msgs::msg::dds_::Twist_" in silent_topic("/imu", TWIST)


def silent_topic(imu, kind=None):
    """The refusal when nobody publishes an IMU, or someone another type under its name."""
    robot, hand = pair(imu=imu)
    hand.imu_speaks = False
    hand.bus.close()
    if kind is not None:
        hand.bus.publisher(ros_topic(imu, kind))
    with pytest.raises(DeployError) as caught:
        robot.connect(0.1)
    return str(caught.value)
