"""The ROS 2 transport on real DDS, against a peer that uses cyclonedds' own objects and QoS as rclcpp sets them."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from gaitway_onboard.transports.cmd_vel import CmdVel
from gaitway_onboard.transports.ros2 import Ros2Robot
from gaitway_onboard.wire.dds import DdsBus
from gaitway_onboard.wire.declarations import FLOAT64_MULTI_ARRAY, IMU, JOINT_STATE, JOINT_TRAJECTORY, TWIST
from gaitway_onboard.wire.idl import Struct
from gaitway_onboard.wire.messages import TYPES
from gaitway_tasks.robots import ANYMAL_C

from ..wire.random_messages import dds_object
from .ros2_by_hand import NAMES, anymal

DEFAULT = Qos(
    Policy.Reliability.Reliable(max_blocking_time=100_000_000), Policy.Durability.Volatile, Policy.History.KeepLast(10)
)
SENSOR_DATA = Qos(Policy.Reliability.BestEffort, Policy.Durability.Volatile, Policy.History.KeepLast(5))
HEADER = {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": "base"}
PATIENCE = 20.0


class Peer:
    """ros2_control as far as DDS sees it, publishing every 2 ms in a thread of its own."""

    def __init__(self, domain: int, command: str, kind: Struct):
        self.participant = DomainParticipant(domain)
        self.states = DataWriter(self.participant, self.topic("rt/joint_states", JOINT_STATE), DEFAULT)
        self.imus = DataWriter(self.participant, self.topic("rt/imu", IMU), SENSOR_DATA)
        self.twists = DataWriter(self.participant, self.topic("rt/cmd_vel", TWIST), DEFAULT)
        self.commands = DataReader(self.participant, self.topic(f"rt{command}", kind), DEFAULT)
        self.stop, self.thread = threading.Event(), threading.Thread(target=self.run)
        self.names = list(ANYMAL_C.joint_names)
        self.position = [0.1 * number for number in range(12)]
        self.thread.start()

    def topic(self, name: str, kind: Struct) -> Topic:
        return Topic(self.participant, name, TYPES[kind.name])

    def run(self) -> None:
        imu = {
            "header": HEADER,
            "orientation": {"x": 0.1, "y": 0.2, "z": 0.3, "w": 0.9},
            "angular_velocity": {"x": 1.0, "y": 2.0, "z": 3.0},
            "linear_acceleration": {"x": 4.0, "y": 5.0, "z": 6.0},
            **{f"{of}_covariance": [0.0] * 9 for of in ("orientation", "angular_velocity", "linear_acceleration")},
        }
        state = {
            "header": HEADER, "name": self.names, "position": self.position, "velocity": [0.5] * 12, "effort": [],
        }  # fmt: skip
        twist = {"linear": {"x": 0.5, "y": 0.0, "z": 0.0}, "angular": {"x": 0.0, "y": 0.0, "z": -0.25}}
        sent = 0
        while not self.stop.wait(0.002):
            sent += 1  # stamped as if this computer were never busy
            stamp = {"sec": 1 + sent // 500, "nanosec": 2_000_000 * (sent % 500)}
            state["header"] = {"stamp": stamp, "frame_id": "base"}
            self.states.write(dds_object(JOINT_STATE, state))
            self.imus.write(dds_object(IMU, imu))
            self.twists.write(dds_object(TWIST, twist))

    def heard(self):
        deadline = time.monotonic() + PATIENCE
        while not (messages := self.commands.take(N=10)):
            assert time.monotonic() < deadline, "no command came"
            time.sleep(0.005)
        return messages[-1]

    def close(self) -> None:
        self.stop.set()
        self.thread.join()


@pytest.mark.parametrize(
    "changes, kind",
    [({}, FLOAT64_MULTI_ARRAY), ({"interface": "position", "message": "JointTrajectory"}, JOINT_TRAJECTORY)],
    ids=["effort", "trajectory"],
)
def test_states_and_commands_cross_dds(dds_domain, changes, kind):
    config = anymal(**changes)
    bus, keeper = DdsBus("lo", dds_domain), DdsBus("lo", dds_domain)  # the last bus of a process closes the domain
    peer = Peer(dds_domain, config.command, kind)
    try:
        robot, source = Ros2Robot(config, bus), CmdVel(bus, config.cmd_vel)
        robot.connect(PATIENCE)
        signals = robot.read()
        expected = dict(zip(peer.names, peer.position, strict=True))
        np.testing.assert_allclose(signals.joint_pos, [expected[name] for name in NAMES])
        np.testing.assert_array_equal(signals.joint_vel, np.full(12, 0.5))
        np.testing.assert_array_equal(signals.imu_quat_wxyz, [0.9, 0.1, 0.2, 0.3])
        np.testing.assert_array_equal(signals.gyro, [1.0, 2.0, 3.0])
        assert signals.joint_torque is None and signals.health.other_writers == ()

        robot.take_over()
        peer.commands.take(N=10)
        targets = robot.read().joint_pos + np.linspace(-0.5, 0.5, 12)
        robot.write(targets, np.full(12, 60.0), np.full(12, 5.0))
        heard = peer.heard()
        if kind is FLOAT64_MULTI_ARRAY:
            wanted = np.clip(60.0 * (targets - robot.read().joint_pos) - 5.0 * 0.5, -80, 80)
            np.testing.assert_allclose(heard.data, wanted, rtol=1e-5)
        else:
            assert heard.joint_names == list(NAMES)
            np.testing.assert_allclose(heard.points[0].positions, targets, atol=1e-12)
            assert heard.points[0].time_from_start.nanosec == 2_000_000

        deadline = time.monotonic() + PATIENCE
        while source(0.0) == (0.0, 0.0, 0.0):
            assert time.monotonic() < deadline, "no twist came"
            time.sleep(0.005)
        assert source(0.0) == (0.5, 0.0, -0.25)
        robot.close()
        if kind is FLOAT64_MULTI_ARRAY:
            assert peer.heard().data == [0.0] * 12
    finally:
        peer.close()
        bus.close()
        keeper.close()
