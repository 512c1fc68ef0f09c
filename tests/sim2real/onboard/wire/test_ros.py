"""ROS 2's messages: byte for byte those of cyclonedds, and every way in which publishers differ."""

import numpy as np
import pytest
from gaitway_onboard.wire.declarations import (
    FLOAT64_MULTI_ARRAY,
    IMU,
    JOINT_STATE,
    JOINT_TRAJECTORY,
    TWIST,
    TWIST_STAMPED,
)
from gaitway_onboard.wire.idl import WireError, decode, encode
from gaitway_onboard.wire.ros import (
    CommandFrame,
    JointStateReader,
    encode_imu,
    encode_joint_state,
    read_imu,
    read_twist,
    ros_topic,
)

from .random_messages import dds_bytes

JOINTS = ("hip", "knee", "ankle")


@pytest.mark.parametrize("frame_id", ["", "b", "base", "imu_link"])
def test_joints_are_found_by_name_in_any_order(frame_id):
    """Lengths of the names put the numbers at every alignment."""
    reader = JointStateReader(JOINTS)
    rng = np.random.default_rng(0)
    for extra in ("", "g", "gripper", "gr/ip"):
        names = list(rng.permutation([*JOINTS, *filter(None, [extra])]))
        position, velocity, effort = rng.normal(size=(3, len(names)))
        message = {
            "header": {"stamp": {"sec": 7, "nanosec": 9}, "frame_id": frame_id},
            "name": names, "position": position, "velocity": velocity, "effort": effort,
        }  # fmt: skip
        index = [names.index(name) for name in JOINTS]
        for _ in range(2):  # the second time from memory
            read = reader.read(encode(JOINT_STATE, message))
            assert read.stamp == 7_000_000_009
            np.testing.assert_array_equal(read.position, position[index])
            np.testing.assert_array_equal(read.velocity, velocity[index])
            np.testing.assert_array_equal(read.effort, effort[index])


def test_a_reader_notices_when_the_publisher_changes():
    reader = JointStateReader(JOINTS)
    first = encode_joint_state(1, JOINTS, [1, 2, 3], [4, 5, 6], [7, 8, 9])
    other_order = encode_joint_state(2, JOINTS[::-1], [3, 2, 1], [6, 5, 4], [9, 8, 7])
    without_velocity = encode_joint_state(3, JOINTS, [1, 2, 3], (), [7, 8, 9])
    assert len(first) == len(other_order)
    for payload in (first, other_order, without_velocity, first):
        read = reader.read(payload)
        np.testing.assert_array_equal(read.position, [1, 2, 3])
        np.testing.assert_array_equal(read.effort, [7, 8, 9])
        assert (read.velocity is None) == (payload is without_velocity)
    assert reader.read(encode_joint_state(4, ("hip", "wheel"), [0, 0])) is None
    assert reader.missing == ("knee", "ankle")
    assert reader.read(first) is not None and reader.missing == ()


def test_same_length_and_names_but_other_arrays():
    """One array of each kind is left out, so that length and names alone do not tell them apart."""
    reader = JointStateReader(JOINTS)
    read = reader.read(encode_joint_state(1, JOINTS, [1, 2, 3], [4, 5, 6], ()))
    assert read.velocity is not None and read.effort is None
    read = reader.read(encode_joint_state(1, JOINTS, [1, 2, 3], (), [4, 5, 6]))
    assert read.velocity is None and read.effort is not None


@pytest.mark.parametrize("velocity, position", [([1.0], [0, 0, 0]), ([], [0, 0])])
def test_arrays_that_do_not_fit_the_names_are_refused(velocity, position):
    with pytest.raises(WireError, match="JointState has 3 names and"):
        JointStateReader(JOINTS).read(encode_joint_state(1, JOINTS, position, velocity))


def test_truncated_messages_are_refused():
    for payload, read in (
        (encode_joint_state(1, JOINTS, [1, 2, 3], [4, 5, 6]), JointStateReader(JOINTS).read),
        (encode_imu(1, [1, 0, 0, 0], [0, 0, 0], [0, 0, 9.81]), read_imu),
        (encode(TWIST, {}), lambda payload: read_twist(payload, False)),
        (encode(TWIST_STAMPED, {}), lambda payload: read_twist(payload, True)),
    ):
        read(payload)
        for length in range(len(payload)):
            with pytest.raises(WireError):
                read(payload[:length])


@pytest.mark.parametrize("frame_id", ["", "b", "imu", "base_link"])
def test_quaternions_change_their_order_once(frame_id):
    message = {
        "header": {"stamp": {"sec": 1, "nanosec": 2}, "frame_id": frame_id},
        "orientation": {"x": 0.1, "y": 0.2, "z": 0.3, "w": 0.9},
        "angular_velocity": {"x": 1.0, "y": 2.0, "z": 3.0},
        "linear_acceleration": {"x": 4.0, "y": 5.0, "z": 6.0},
        "linear_acceleration_covariance": np.full(9, -7.0),
        "orientation_covariance": [0.5] * 9,
        "angular_velocity_covariance": [-8.0] * 9,
    }
    read = read_imu(encode(IMU, message))
    assert read.stamp == 1_000_000_002 and read.oriented
    np.testing.assert_array_equal(read.quat_wxyz, [0.9, 0.1, 0.2, 0.3])
    np.testing.assert_array_equal(read.gyro, [1, 2, 3])
    np.testing.assert_array_equal(read.accelerometer, [4, 5, 6])
    back = decode(IMU, encode_imu(5, read.quat_wxyz, read.gyro, read.accelerometer))
    assert back["orientation"] == message["orientation"]
    assert not read_imu(encode(IMU, {**message, "orientation_covariance": [-1.0] + [0.0] * 8})).oriented


def test_twists():
    twist = {"linear": {"x": 0.5, "y": -0.25, "z": 9.0}, "angular": {"x": 9.0, "y": 9.0, "z": 0.125}}
    assert read_twist(encode(TWIST, twist), stamped=False) == (0.5, -0.25, 0.125)
    for frame_id in ("", "map", "base_link"):
        stamped = encode(TWIST_STAMPED, {"header": {"frame_id": frame_id}, "twist": twist})
        assert read_twist(stamped, stamped=True) == (0.5, -0.25, 0.125)


@pytest.mark.parametrize("joints", [("a",), JOINTS, tuple(f"{leg}_joint" for leg in "abcdefghijkl")])
def test_commands_are_what_cyclonedds_makes_of_them(joints):
    values = np.random.default_rng(1).normal(size=len(joints))
    array, trajectory = (
        CommandFrame(FLOAT64_MULTI_ARRAY, joints, 0.0025),
        CommandFrame(JOINT_TRAJECTORY, joints, 0.0025),
    )
    array.values[:] = trajectory.values[:] = values
    time = {"sec": 0, "nanosec": 0}
    assert bytes(array.payload) == dds_bytes(
        FLOAT64_MULTI_ARRAY, {"layout": {"dim": [], "data_offset": 0}, "data": values.tolist()}
    )
    point = {"positions": values.tolist(), "velocities": [], "accelerations": [], "effort": [],
             "time_from_start": {"sec": 0, "nanosec": 2_500_000}}  # fmt: skip
    assert bytes(trajectory.payload) == dds_bytes(
        JOINT_TRAJECTORY, {"header": {"stamp": time, "frame_id": ""}, "joint_names": list(joints), "points": [point]}
    )


def test_a_new_command_frame_is_zero():
    assert (
        decode(FLOAT64_MULTI_ARRAY, CommandFrame(FLOAT64_MULTI_ARRAY, JOINTS, 1.0).payload)["data"].tolist() == [0] * 3
    )
    with pytest.raises(WireError, match="no command of ros2_control"):
        CommandFrame(IMU, JOINTS, 1.0)


def test_topic_names_are_mangled_as_ros_does():
    topic = ros_topic("/joint_states", JOINT_STATE)
    assert (topic.name, topic.type) == ("rt/joint_states", "sensor_msgs::msg::dds_::JointState_")
    assert topic.reliable and topic.depth == 10
    for name in ("joint_states", "/a//b", "/a/", "/a b", "", "/"):
        with pytest.raises(WireError, match="no full ROS topic name"):
            ros_topic(name, JOINT_STATE)
