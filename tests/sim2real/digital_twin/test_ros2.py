import numpy as np
import pytest
from gaitway_onboard.interface import DeployError
from gaitway_onboard.transports.ros2 import Ros2Robot
from gaitway_onboard.transports.ros2_config import Ros2Config
from gaitway_onboard.wire.declarations import FLOAT64_MULTI_ARRAY, JOINT_STATE, JOINT_TRAJECTORY
from gaitway_onboard.wire.idl import decode, encode
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_onboard.wire.ros import ros_topic
from gaitway_sim2real.digital_twin.faults import Fault, FaultError
from gaitway_sim2real.digital_twin.twin import Twin, open_twin
from gaitway_tasks.robots import ANYMAL_C, ROBOTS

NAMES = ANYMAL_C.joint_names[::-1]


def config(**changes):
    values = {
        "robot": "anymal-c", "joints": NAMES, "interface": "effort", "command": "/effort/commands",
        "effort_limit": 80.0, "velocity_limit": 7.5, "stiffness": 100.0, "damping": 5.0, "stop_damping": 5.0,
        "imu_quat_wxyz": (0.5, 0.5, -0.5, 0.5),
    }  # fmt: skip
    return Ros2Config(**values | changes)


def pair(settings, **more):
    bus = MemoryBus()
    twin = Twin(ANYMAL_C, bus.join("twin"), hardware=settings.hardware(), **more)
    bus.attach(twin.advance)
    robot = Ros2Robot(settings, bus)
    robot.connect()
    robot.take_over()
    return twin, robot


def drive(robot, seconds, targets):
    start = robot.read().joint_pos
    count = round(seconds / robot.period)
    for step in range(count):
        share = min(1.0, 1.5 * step / count)
        robot.read()
        robot.write(start + share * (targets - start), np.full(12, 100.0), np.full(12, 5.0))
        robot.sleep_until(robot.clock() + robot.period)
    return robot.read()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"interface": "position"},
        {"interface": "position", "message": "JointTrajectory", "command": "/trajectory/joint_trajectory"},
    ],
    ids=["effort", "position", "trajectory"],
)
def test_an_anymal_stands_up_over_ros(changes):
    twin, robot = pair(config(**changes))
    assert twin.truth().base_pos[2] < 0.2, "it lies"
    signals, truth = drive(robot, 2.0, twin.body.default_pos), twin.truth()
    assert truth.base_pos[2] > 0.45 and truth.tilt < 0.05 and truth.foot_contact.all()
    assert robot.joint_names == twin.joint_names == NAMES
    np.testing.assert_allclose(signals.joint_pos, truth.joint_pos, atol=1e-9)
    np.testing.assert_allclose(signals.joint_torque, truth.joint_torque, atol=1e-9)
    np.testing.assert_allclose(signals.imu_quat_wxyz, truth.base_quat_wxyz, atol=1e-9)
    np.testing.assert_allclose(signals.gyro, truth.base_ang_vel, atol=1e-9)
    np.testing.assert_allclose(signals.accelerometer, [0.0, 0.0, 9.81], atol=0.3)
    assert twin.counters.foreign == 0 and twin.counters.accepted > 700


def test_the_brakes_of_an_arm_hold_it_until_it_is_commanded():
    arm = ROBOTS["franka"]
    settings = Ros2Config(
        robot="franka", joints=arm.joint_names, interface="position", command="/arm/commands", imu=None,
        effort_limit=87.0, velocity_limit=2.6, stiffness=600.0, damping=50.0, stop_damping=50.0,
    )  # fmt: skip
    bus = MemoryBus()
    twin = Twin(arm, bus.join("twin"), hardware=settings.hardware())
    bus.attach(twin.advance)
    robot = Ros2Robot(settings, bus)
    robot.connect()
    robot.sleep_until(robot.clock() + 1.0)
    np.testing.assert_allclose(robot.read().joint_pos, arm.default_joint_pos)
    robot.take_over()
    robot.write(robot.read().joint_pos, np.full(9, 0.0), np.full(9, 1.0))
    robot.sleep_until(robot.clock() + 1.0)
    assert np.abs(robot.read().joint_pos - arm.default_joint_pos).max() > 0.02, "it sinks"


def test_joint_states_come_in_an_order_of_their_own():
    settings, bus = config(), MemoryBus()
    twin = Twin(ANYMAL_C, bus.join("twin"), hardware=settings.hardware(), hung=True)
    bus.attach(twin.advance)
    states = bus.subscriber(ros_topic("/joint_states", JOINT_STATE))
    bus.sleep_until(0.01)
    message = decode(JOINT_STATE, states.take()[1])
    assert message["name"] == sorted(NAMES) != list(NAMES)
    by_name = dict(zip(message["name"], message["position"], strict=True))
    np.testing.assert_allclose([by_name[name] for name in NAMES], twin.truth().joint_pos)
    assert message["header"]["stamp"]["nanosec"] == pytest.approx(1e9 * twin.time, rel=1e-6)


def test_commands_that_a_controller_would_refuse_are_counted():
    array, bus = config(), MemoryBus()
    twin = Twin(ANYMAL_C, bus.join("twin"), hardware=array.hardware(), hung=True)
    bus.attach(twin.advance)
    out = bus.publisher(ros_topic(array.command, FLOAT64_MULTI_ARRAY))
    out.send(encode(FLOAT64_MULTI_ARRAY, {"data": np.zeros(11)}))
    out.send(b"\0\1\0\0nonsense")
    out.send(encode(FLOAT64_MULTI_ARRAY, {"data": np.full(12, np.nan)}))
    bus.sleep_until(0.01)
    assert (twin.counters.foreign, twin.counters.not_finite, twin.counters.accepted) == (2, 1, 0)


def test_trajectories_name_their_joints():
    settings = config(interface="position", message="JointTrajectory")
    bus = MemoryBus()
    twin = Twin(ANYMAL_C, bus.join("twin"), hardware=settings.hardware(), hung=True)
    bus.attach(twin.advance)
    out = bus.publisher(ros_topic(settings.command, JOINT_TRAJECTORY))
    names = list(ANYMAL_C.joint_names)
    wanted = np.linspace(-0.3, 0.3, 12)
    good = encode(JOINT_TRAJECTORY, {"joint_names": names, "points": [{"positions": wanted}]})
    out.send(good)
    out.send(encode(JOINT_TRAJECTORY, {"joint_names": ["a", *names[1:]], "points": [{"positions": wanted}]}))
    out.send(encode(JOINT_TRAJECTORY, {"joint_names": names, "points": []}))
    bus.sleep_until(0.01)
    assert twin.counters.accepted == 1 and twin.counters.foreign == 2
    np.testing.assert_allclose(twin.side.decode(good).q, wanted[::-1])


def test_faults_that_the_wire_can_carry():
    twin, robot = pair(config(), hung=True)
    with pytest.raises(FaultError, match="checksum: not on this wire"):
        twin.inject(Fault.CHECKSUM)
    twin.inject(Fault.FROZEN, duration=0.05)
    robot.sleep_until(robot.clock() + 0.04)
    frozen = robot.read().health.tick
    robot.sleep_until(robot.clock() + 0.005)
    assert robot.read().health.tick == frozen and robot.clock() - robot.read().stamp < 0.005
    twin.inject(Fault.IMU_NAN, after=0.02, duration=0.02)
    robot.sleep_until(robot.clock() + 0.03)
    assert np.isnan(robot.read().imu_quat_wxyz).all()


def test_the_file_belongs_to_ros2_alone(tmp_path):
    with pytest.raises(DeployError, match="by a file: --config"):
        open_twin("ros2", MemoryBus())
    with pytest.raises(DeployError, match="unitree-go2 is known"):
        open_twin("unitree-go2", MemoryBus(), config=tmp_path / "ros2.yaml")
