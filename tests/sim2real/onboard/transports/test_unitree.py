"""A Unitree robot on its wire, both message families: what is read, what is sent, and what is refused."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable

import numpy as np
import pytest
from gaitway_onboard.interface import DeployError
from gaitway_onboard.transports.open import Connection
from gaitway_onboard.transports.unitree import UnitreeRobot
from gaitway_onboard.transports.unitree_frames import COMMANDS, CommandFrame
from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.crc import check
from gaitway_onboard.wire.declarations import HG_BMS_STATE, WIRELESS_CONTROLLER
from gaitway_onboard.wire.layouts import Layout, layout_of
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.hardware import HARDWARE

from .robots_by_hand import HandRobot

every_robot = pytest.mark.parametrize("name", HARDWARE)


def pair(name: str, **options) -> tuple[UnitreeRobot, HandRobot]:
    bus = MemoryBus()
    robot = UnitreeRobot(
        HARDWARE[name], Connection(bus=bus, interface="eth7", domain=3, **{"own_controller": False, **options})
    )
    return robot, HandRobot(HARDWARE[name], bus)


def connected(name: str) -> tuple[UnitreeRobot, HandRobot]:
    robot, hand = pair(name)
    robot.connect()
    return robot, hand


def command_layout(robot: UnitreeRobot) -> Layout:
    return layout_of(COMMANDS[robot.hardware.family])


@every_robot
def test_states_are_read_by_name(name):
    robot, hand = connected(name)
    state, hardware, go = hand.state, robot.hardware, robot.hardware.family == "unitree_go"
    joints = len(hardware.joint_names)
    values = {key: np.random.default_rng(3).normal(size=joints).astype(np.float32) for key in ("q", "dq", "tau_est")}
    for motor, joint in enumerate(hardware.motors):
        if joint is not None:
            index = hardware.joint_names.index(joint)
            for key, value in values.items():
                state[f"motor_state.{key}"][motor] = value[index]
            state["motor_state.temperature"][motor] = 30 + index if go else (20, 30 + index)
            if go:
                state["motor_state.lost"][motor] = 2 * index
    state["imu_state.gyroscope"], state["imu_state.accelerometer"] = (0.1, 0.2, 0.3), (1.0, 2.0, 9.0)
    robot.sleep_until(robot.clock() + 0.002)
    signals = robot.read()
    assert robot.joint_names == hardware.joint_names and signals.stamp == robot.clock()
    np.testing.assert_array_equal(signals.joint_pos, values["q"])
    np.testing.assert_array_equal(signals.joint_vel, values["dq"])
    np.testing.assert_array_equal(signals.joint_torque, values["tau_est"])
    health = signals.health
    np.testing.assert_array_equal(health.motor_temperature, 30 + np.arange(joints))
    assert health.tick == int(state["tick"]) and health.corrupt == 0 and health.other_writers == ()
    if go:
        np.testing.assert_array_equal(health.motor_lost, 2 * np.arange(joints))
    else:
        assert health.motor_lost is None
    if hardware.imu_joint is None:
        np.testing.assert_allclose(signals.gyro, (0.1, 0.2, 0.3), rtol=1e-6)
        np.testing.assert_allclose(signals.accelerometer, (1.0, 2.0, 9.0))


def test_an_imu_in_the_torso_is_turned_into_the_base():
    robot, hand = connected("unitree-h1")
    waist = robot.hardware.motors.index("torso")
    hand.state["motor_state.q"][waist], hand.state["motor_state.dq"][waist] = np.pi / 2, 0.5
    half = np.sqrt(0.5)
    hand.state["imu_state.quaternion"] = (half, 0.0, 0.0, half)  # the torso looks left, so the pelvis looks ahead
    hand.state["imu_state.gyroscope"], hand.state["imu_state.accelerometer"] = (0.3, 0.2, 0.5), (1.0, 0.0, 9.8)
    robot.sleep_until(robot.clock() + 0.002)
    signals = robot.read()
    np.testing.assert_allclose(signals.imu_quat_wxyz, (1.0, 0.0, 0.0, 0.0), atol=1e-6)
    np.testing.assert_allclose(signals.gyro, (-0.2, 0.3, 0.0), atol=1e-6)  # the waist's own turning is not the base's
    np.testing.assert_allclose(signals.accelerometer, (0.0, 1.0, 9.8), atol=1e-6)


def test_a_signal_that_was_read_does_not_change():
    robot, hand = connected("unitree-go2")
    before = robot.read()
    assert robot.read() is before  # nothing new came
    kept = before.joint_pos.copy()
    hand.state["motor_state.q"][:] = 9.0
    robot.sleep_until(robot.clock() + 0.002)
    assert robot.read() is not before
    np.testing.assert_array_equal(before.joint_pos, kept)


@every_robot
def test_a_command_reaches_its_motors_and_no_others(name):
    robot, hand = connected(name)
    robot.take_over()
    hand.commands()
    hardware, joints = robot.hardware, len(robot.joint_names)
    targets, kp, kd = np.random.default_rng(1).uniform(0.1, 3.0, (3, joints))
    robot.write(targets, kp, kd)
    (command,) = hand.commands()
    modes = command["motor_cmd.mode"]
    for motor in range(len(modes)):
        joint = hardware.motors[motor] if motor < len(hardware.motors) else None
        sent = [float(command[f"motor_cmd.{key}"][motor]) for key in ("q", "dq", "tau", "kp", "kd")]
        if joint is None:
            assert sent == [float(np.float32(2.146e9)), 16000.0, 0.0, 0.0, 0.0] and modes[motor] == 0
        else:
            index = robot.joint_names.index(joint)
            np.testing.assert_allclose(sent, (targets[index], 0.0, 0.0, kp[index], kd[index]), rtol=1e-6)
            assert modes[motor] == hardware.enable[joint]
    if hardware.family == "unitree_go":
        assert bytes(command["head"]) == b"\xfe\xef" and command["level_flag"] == 0xFF
    else:
        assert command["mode_machine"] == hand.state["mode_machine"] and command["mode_pr"] == 0


@every_robot
def test_damping_has_no_stiffness_whatever_the_state_says(name):
    robot, hand = connected(name)
    hand.state["motor_state.q"][0] = np.nan
    robot.sleep_until(robot.clock() + 0.002)
    assert np.isnan(robot.read().joint_pos).any()
    robot.take_over()
    for command in hand.commands():
        damping = command["motor_cmd.kd"][hand.slots]
        np.testing.assert_allclose(damping, [robot.hardware.damping[joint] for joint in robot.joint_names])
        assert not command["motor_cmd.kp"].any() and not command["motor_cmd.dq"][hand.slots].any()
        assert np.isfinite(command["motor_cmd.q"]).all()


@every_robot
def test_the_guardian_s_frame_is_a_damping_command(name):
    robot, hand = connected(name)
    stop = robot.safe_stop()
    frame = command_layout(robot).read(bytes.fromhex(stop.settings["payload"]))
    assert stop.settings["topic"] == robot.command_topic.name and check(frame)
    robot.take_over()
    (sent,) = hand.commands()
    for key in ("motor_cmd.mode", "motor_cmd.kp", "motor_cmd.kd", "motor_cmd.dq", "motor_cmd.tau"):
        np.testing.assert_array_equal(frame[key], sent[key])
    if robot.hardware.mode_machines:
        assert frame["mode_machine"] == sent["mode_machine"] == hand.state["mode_machine"]
        with pytest.raises(DeployError, match="connect before asking for the safe stop"):
            pair(name)[0].safe_stop()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_command_that_is_not_finite_is_not_sent(bad):
    robot, hand = connected("unitree-go2")
    robot.take_over()
    hand.commands()
    with pytest.raises(ValueError, match="not finite"):
        robot.write(np.r_[bad, np.zeros(11)], np.ones(12), np.ones(12))
    assert hand.commands() == []
    robot.write(np.zeros(12), np.ones(12), np.ones(12))  # the frame has not kept it
    assert np.isfinite(hand.commands()[0]["motor_cmd.q"]).all()


def test_nothing_is_sent_before_taking_over():
    robot, hand = pair("unitree-go2")
    with pytest.raises(DeployError, match="connect before taking over"):
        robot.take_over()
    robot.connect()
    with pytest.raises(DeployError, match="take over before commanding"):
        robot.write(np.zeros(12), np.zeros(12), np.zeros(12))
    with pytest.raises(DeployError, match="take over before commanding"):
        robot.damp()
    assert hand.commands() == []


# ---- health --------------------------------------------------------------------------------------------------------


def test_corrupt_states_are_counted_and_dropped():
    robot, hand = connected("unitree-go2")
    good = robot.read()
    hand.sealed = False
    hand.state["motor_state.q"][0] = 5.0
    for _ in range(3):
        robot.sleep_until(robot.clock() + 0.002)
        assert robot.read() is good
    assert good.health.corrupt == 3
    hand.sealed = True
    robot.sleep_until(robot.clock() + 0.01)
    assert robot.read().joint_pos[0] == 5.0 and robot.read().health.corrupt == 3


def test_a_corrupt_state_behind_a_good_one_leaves_the_good_one():
    robot, hand = connected("unitree-go2")
    robot.read()
    hand.state["motor_state.q"][1] = 0.7
    robot.sleep_until(robot.clock() + 0.002)
    hand.sealed = False
    hand.state["motor_state.q"][1] = 5.0
    robot.sleep_until(robot.clock() + 0.002)
    signals = robot.read()
    assert signals.joint_pos[1] == np.float32(0.7) and signals.stamp == pytest.approx(robot.clock() - 0.002)


def test_battery_of_each_family_and_none_in_a_simulator():
    robot, hand = connected("unitree-go2")
    assert robot.read().health.battery is None
    hand.state["bms_state.soc"] = 64
    robot.sleep_until(robot.clock() + 0.002)
    assert robot.read().health.battery == 0.64
    hand.state["bms_state.soc"], hand.state["bms_state.cell_vol"] = 0, 3100
    robot.sleep_until(robot.clock() + 0.002)
    assert robot.read().health.battery == 0.0  # empty, and not silent

    robot, hand = connected("unitree-g1")
    assert robot.read().health.battery is None
    message = layout_of(HG_BMS_STATE).new()
    message["soc"] = 33
    hand.bus.publisher(Topic("rt/lf/bmsstate", HG_BMS_STATE.name)).send(message.payload)
    robot.sleep_until(robot.clock() + 0.002)
    assert robot.read().health.battery == 0.33


@pytest.mark.parametrize("name", ["unitree-go2", "unitree-g1"])
def test_the_transmitter_in_the_state(name):
    robot, hand = connected(name)
    assert robot.read().health.remote is None
    data = struct.pack("<2sH5f", b"\x55\x51", 1 << 8 | 1 << 5 | 1 << 15, -0.5, 0.25, 1.5, 0.0, 0.005)
    hand.state["wireless_remote"] = np.frombuffer(data.ljust(40, b"\0"), np.uint8)
    robot.sleep_until(robot.clock() + 0.002)
    remote = robot.read().health.remote
    assert remote.buttons == {"A", "L2", "left"}
    assert remote.left == (-0.5, 0.0) and remote.right == (0.25, 1.0)  # a dead zone, and the end of the stick
    hand.state["wireless_remote"] = 0
    robot.sleep_until(robot.clock() + 0.4)
    assert robot.read().health.remote == remote
    robot.sleep_until(robot.clock() + 0.2)
    assert robot.read().health.remote is None  # out of reach: no button is held


def test_the_transmitter_on_its_own_topic():
    robot, hand = connected("unitree-go2")
    message = layout_of(WIRELESS_CONTROLLER).new()
    message["ly"], message["rx"], message["keys"] = 0.5, np.nan, 1 << 3
    hand.bus.publisher(Topic("rt/wirelesscontroller", WIRELESS_CONTROLLER.name)).send(message.payload)
    robot.sleep_until(robot.clock() + 0.002)
    remote = robot.read().health.remote
    assert remote.left == (0.0, 0.5) and remote.right == (0.0, 0.0) and remote.buttons == {"select"}


def test_a_second_writer_is_seen_within_half_a_second():
    robot, _ = connected("unitree-go2")
    robot.take_over()
    assert robot.read().health.other_writers == ()
    robot.bus.join("joystick_app").publisher(robot.command_topic)
    robot.sleep_until(robot.clock() + 0.51)
    assert robot.read().health.other_writers == ("joystick_app",)


# ---- refused -------------------------------------------------------------------------------------------------------


def refusal(robot: UnitreeRobot, hand: HandRobot) -> str:
    started = robot.clock()
    with pytest.raises(DeployError) as refused:
        robot.connect(timeout=3.0)
    assert robot.clock() - started == pytest.approx(3.0) and hand.commands() == []
    return str(refused.value)


def test_silence_says_where_nobody_was_heard():
    bus = MemoryBus()
    robot = UnitreeRobot(HARDWARE["unitree-go2"], Connection(bus=bus, interface="eth7", domain=3))
    with pytest.raises(DeployError, match=r"no program offers rt/lowstate on interface eth7, domain 3: is the"):
        robot.connect()
    assert bus.clock() == pytest.approx(3.0)


def test_a_writer_that_says_nothing_is_named():
    robot, hand = pair("unitree-go2")
    hand.speaking = False
    assert "on interface eth7, domain 3, though robot offers rt/lowstate: does a firewall" in refusal(robot, hand)


def test_states_that_are_all_corrupt():
    robot, hand = pair("unitree-g1")
    hand.sealed, hand.state["crc"] = False, 7
    assert "had a wrong checksum within 3 s: do not drive" in refusal(robot, hand)


def test_states_without_a_checksum_are_believed_on_request_only():
    robot, hand = pair("unitree-go2")
    hand.sealed = False
    assert "has a checksum: is this a simulator? --unsealed-states" in refusal(robot, hand)
    robot, hand = pair("unitree-go2", unsealed_states=True)
    hand.sealed = False
    robot.connect()
    good = robot.read()
    assert good.health.corrupt == 0
    hand.state["crc"] = 7  # one that has a checksum must be right
    robot.sleep_until(robot.clock() + 0.002)
    assert robot.read() is good and good.health.corrupt == 1


@pytest.mark.parametrize(("asked", "there"), [("unitree-go2", "unitree_hg"), ("unitree-g1", "unitree_go")])
def test_messages_of_the_other_family(asked, there):
    bus = MemoryBus()
    robot = UnitreeRobot(HARDWARE[asked], Connection(bus=bus))
    other = HandRobot(HARDWARE["unitree-go2" if there == "unitree_go" else "unitree-g1"], bus)
    assert "is no unitree_" in refusal(robot, other)
    bus = MemoryBus()  # DDS does not deliver what has another type
    robot = UnitreeRobot(HARDWARE[asked], Connection(bus=bus))
    bus.join("robot").publisher(Topic("rt/lowstate", f"{there}::msg::dds_::LowState_"))
    with pytest.raises(DeployError, match=rf"rt/lowstate carries {there}::msg::dds_::LowState_, and {asked} speaks"):
        robot.connect()


@pytest.mark.parametrize("machine", [0, 4, 6, 255])
def test_an_unknown_machine(machine):
    robot, hand = pair("unitree-g1")
    hand.state["mode_machine"] = machine
    with pytest.raises(DeployError, match=rf"says mode_machine {machine}, and unitree-g1 is for 5: 29 joints; 2:"):
        robot.connect()
    assert hand.commands() == []


def test_a_robot_that_numbers_its_motors_otherwise():
    """g1_joint_index_dds.md's numbering of the 23-joint robot, without gaps."""
    robot, hand = pair("unitree-g1-23dof")
    hand.state["motor_state.q"][:] = 0.0
    hand.state["motor_state.q"][:23] = 0.1
    with pytest.raises(DeployError, match=r"slots 13, 14, 20, 21 report motion and should be empty, those of right_"):
        robot.connect()


@pytest.mark.parametrize("name", ["unitree-go2", "unitree-g1"])
def test_a_second_writer_is_refused_before_the_first_command(name):
    robot, hand = connected(name)
    robot.bus.join("someone_else").publisher(robot.command_topic)
    with pytest.raises(DeployError, match=r"someone_else could send commands on rt/lowcmd, though it is silent: stop"):
        robot.take_over()
    assert hand.commands() == []
    with pytest.raises(DeployError, match="take over before commanding"):
        robot.damp()


def chatter(robot: UnitreeRobot) -> Callable[[], None]:
    """Someone else who could write commands; calling it sends one."""
    publisher = robot.bus.join("someone_else").publisher(robot.command_topic)
    return lambda: publisher.send(CommandFrame(robot.hardware).sealed())


@pytest.mark.parametrize("silent_writers", [False, True])
def test_a_second_writer_that_sends_is_refused_always(silent_writers):
    robot, _ = pair("unitree-go2", silent_writers=silent_writers)
    robot.connect()
    send = chatter(robot)
    robot.bus.attach(lambda deadline: send())
    with pytest.raises(DeployError, match=r"someone_else sends commands on rt/lowcmd: .* stop the other program"):
        robot.take_over()


def test_a_silent_writer_is_tolerated_on_request_until_it_speaks():
    said = []
    robot, _ = pair("unitree-go2", silent_writers=True, say=said.append)
    robot.connect()
    send = chatter(robot)
    robot.take_over()
    assert said == ["someone_else could send commands and is silent: its first command will end this"]
    for step in range(1000):  # also commands that are alike, and more than are remembered
        robot.write(np.full(12, 0.1 * (step % 3)), np.ones(12), np.ones(12))
        robot.sleep_until(robot.clock() + 0.002)
        assert robot.read().health.other_writers == ()
    send()
    assert robot.read().health.other_writers == ("someone_else",)
    robot.sleep_until(robot.clock() + 5.0)
    assert robot.read().health.other_writers == ("someone_else",)  # and it is not forgiven


def test_a_tolerated_writer_opens_no_door_for_another():
    robot, _ = pair("unitree-go2", silent_writers=True)
    robot.connect()
    chatter(robot)
    robot.take_over()
    robot.bus.join("a_third").publisher(robot.command_topic)
    robot.sleep_until(robot.clock() + 0.51)
    assert robot.read().health.other_writers == ("a_third",)


def test_a_writer_that_leaves_in_time_is_no_second_one():
    """The robot's own controller, on the robot's own computer, may need a moment."""
    robot, hand = pair("unitree-go2", own_controller=True)
    hand.controller("normal")
    hand.serve("sport", lambda function: (0, ""))
    robot.connect()
    own = robot.bus.join("sport", address="192.168.123.161")
    own.publisher(robot.command_topic)
    leave = robot.clock() + 4.5
    robot.bus.attach(lambda deadline: own.close() if deadline > leave else None)
    robot.take_over()
    assert len(hand.commands()) == 1


def test_robots_of_another_family_are_not_unitree_s():
    ros = dataclasses.replace(HARDWARE["unitree-go2"], family="ros2")
    with pytest.raises(DeployError, match="speaks ros2"):
        UnitreeRobot(ros, Connection(bus=MemoryBus()))
