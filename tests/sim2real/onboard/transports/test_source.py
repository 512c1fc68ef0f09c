"""Writers and readers on a robot's topics: states of one writer, commands of one, and questions that disturb no one."""

from __future__ import annotations

import numpy as np
import pytest
from gaitway_onboard.interface import DeployError
from gaitway_onboard.transports.open import Connection
from gaitway_onboard.transports.order import Order
from gaitway_onboard.transports.unitree import UnitreeRobot
from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.hardware import HARDWARE
from gaitway_sim2real.rehearse.newcomer import Newcomer

from . import ros2_by_hand
from .robots_by_hand import HandRobot

pytestmark = pytest.mark.hostile("deployment")
every_wire = pytest.mark.parametrize("name", ["unitree-go2", "unitree-g1", "ros2"])
IMPOSSIBLE = 0.77
"""[rad]; of the joints of another robot."""


class Wire:
    """A robot, the one who drives it, and whatever else comes onto their bus."""

    def __init__(self, name: str, *, drives: bool = True, **options):
        self.name, self.bus = name, MemoryBus("first", drives=drives)
        self.hand = self.robot_side("robot")
        self.robot = self.driver(self.bus, **options)

    def driver(self, bus: MemoryBus, **options):
        if self.name == "ros2":
            return ros2_by_hand.Ros2Robot(ros2_by_hand.anymal(), bus, **options)
        return UnitreeRobot(HARDWARE[self.name], Connection(bus=bus, own_controller=False, **options))

    def robot_side(self, who: str, position: float = 0.01):
        """Another robot of the same kind, which sends and obeys."""
        if self.name == "ros2":
            hand = ros2_by_hand.HandRobot(ros2_by_hand.anymal(), self.bus, name=who)
            hand.position[:] = position
            return hand
        hand = HandRobot(HARDWARE[self.name], self.bus, name=who)
        hand.state["motor_state.q"][hand.slots] = position
        return hand

    def say_once(self, who: str) -> None:
        """One state of somebody else, newer than any, in the moment before the next look."""
        if self.name == "ros2":
            other = ros2_by_hand.HandRobot(ros2_by_hand.anymal(), self.bus.join("nowhere"), name=who)
            other.position[:] = IMPOSSIBLE
            self.bus._shared.simulations.pop()
            other.speak()
        else:
            other = HandRobot(HARDWARE[self.name], self.bus, name=who)
            self.bus._shared.simulations.pop()
            other.state["motor_state.q"][other.slots] = IMPOSSIBLE
            other.state["tick"] = self.hand.state["tick"] + 2
            other.send()

    def commanders(self) -> list[str]:
        return [each.who for each in self.bus.join("ear").writers(self.robot.command_topic)]

    def step(self, count: int = 1):
        for _ in range(count):
            self.robot.sleep_until(self.robot.clock() + 0.002)
            signals = self.robot.read()
        return signals


@every_wire
def test_two_robots_are_refused_and_both_named(name):
    wire = Wire(name)
    wire.robot_side("another", IMPOSSIBLE)
    with pytest.raises(DeployError, match=r"robot, id robot and another, id another write .*: two robots") as refused:
        wire.robot.connect()
    assert "--robot-id" in str(refused.value) and wire.commanders() == []


@every_wire
def test_the_robot_that_is_meant_and_commands_that_both_would_hear(name):
    wire = Wire(name, robot_ids=["robot"])
    wire.robot_side("another", IMPOSSIBLE)
    with pytest.raises(DeployError, match=r"another, id another would hear each command too: .* cannot keep a second"):
        wire.robot.connect()
    assert wire.commanders() == []


@every_wire
def test_a_recording_beside_the_robot_that_is_meant(name):
    wire = Wire(name, robot_ids=["robot"])
    recording = wire.robot_side("recording", IMPOSSIBLE)
    wire.bus._shared.readers.clear()  # it hears nobody
    wire.robot.connect()
    wire.robot.take_over()
    for _ in range(300):
        signals = wire.step()
        assert np.abs(signals.joint_pos).max() < IMPOSSIBLE and signals.health.other_sources == ()
    recording.bus.subscriber(wire.robot.command_topic)  # and now it would obey
    assert wire.step(300).health.other_sources == ("recording, id recording",)


@every_wire
def test_the_one_that_is_meant_is_not_there(name):
    wire = Wire(name, robot_ids=["the-other"])
    with pytest.raises(DeployError, match=r"no writer of rt/.* is the-other: there is robot, id robot"):
        wire.robot.connect()


@every_wire
def test_one_state_of_somebody_else_is_not_used_and_told_at_once(name):
    wire = Wire(name)
    wire.robot.connect()
    wire.robot.take_over()
    assert wire.step(5).health.other_sources == ()
    wire.say_once("stranger")
    signals = wire.robot.read()
    assert np.abs(signals.joint_pos).max() < IMPOSSIBLE
    assert signals.health.other_sources[0] == "stranger, id stranger" and "robot" in signals.health.source
    for _ in range(10):
        signals = wire.step()
        assert np.abs(signals.joint_pos).max() < IMPOSSIBLE and signals.health.other_sources


@every_wire
def test_a_robot_that_comes_before_the_first_command_is_refused(name):
    wire = Wire(name)
    wire.robot.connect()
    wire.robot_side("another", IMPOSSIBLE)
    with pytest.raises(DeployError, match=r"another, id another writes rt/.* since robot, id robot was connected"):
        wire.robot.take_over()
    assert wire.commanders() == []


@every_wire
def test_a_silent_writer_of_states_is_told_within_half_a_second(name):
    wire = Wire(name)
    wire.robot.connect()
    wire.robot.take_over()
    for topic in (wire.robot.state_topic, getattr(wire.robot, "imu_topic", None)):
        if topic is not None:
            wire.bus.join(f"writer of {topic.name}").publisher(topic)
    found = wire.step(260).health.other_sources
    assert (
        [who.split(",")[0] for who in found[:2]] == ["writer of rt/joint_states", "writer of rt/imu"]
        if (name == "ros2")
        else found == ("writer of rt/lowstate, id writer of rt/lowstate",)
    )


@every_wire
def test_a_robot_that_starts_anew_is_another(name):
    wire = Wire(name)
    wire.robot.connect()
    wire.robot.take_over()
    wire.hand.bus.close()
    wire.bus._shared.simulations.clear()
    wire.robot_side("robot", IMPOSSIBLE)
    signals = wire.step(10)
    assert np.abs(signals.joint_pos).max() < IMPOSSIBLE and signals.health.other_sources


@pytest.mark.parametrize("name", ["unitree-go2", "unitree-g1"])
def test_another_type_beside_the_states(name):
    wire = Wire(name)
    wire.bus.join("another").publisher(Topic("rt/lowstate", "std_msgs::msg::dds_::String_"))
    with pytest.raises(DeployError, match="robot, id robot and another, id another write rt/lowstate"):
        wire.robot.connect()


# ---- a second deployment -------------------------------------------------------------------------------------------


@every_wire
def test_a_second_deployment_is_refused_before_anybody_can_notice(name):
    wire = Wire(name)
    wire.robot.connect()
    wire.robot.take_over()
    newcomer = Newcomer(wire.bus, lambda bus: wire.driver(bus).connect())
    wire.bus.attach(newcomer.look)
    for _ in range(600):
        assert wire.step().health.other_writers == () and wire.commanders() == ["first"]
    assert newcomer.ended
    assert "first drives a robot on " in str(newcomer.error) and "nothing was sent" in str(newcomer.error)


@pytest.mark.parametrize("name", ["unitree-go2", "ros2"])
@pytest.mark.parametrize("head_start", [0.0, 0.25, 0.5, 1.0])
def test_of_two_that_start_together_one_goes_on_at_most(name, head_start):
    """On two computers, so that only the wire tells one of the other."""
    wire, done = Wire(name), []

    def drive(bus):
        robot = wire.driver(bus)
        robot.connect()
        if bus.name == "late":
            bus.sleep_until(bus.clock() + head_start)
        robot.take_over()
        done.append(bus.name)
        while True:  # a deployment that drives
            bus.sleep_until(bus.clock() + 0.002)
            robot.read()

    both = []
    for who in ("early", "late"):
        newcomer = Newcomer(wire.bus, drive)
        newcomer.name = who
        wire.bus.attach(newcomer.look)
        both.append(newcomer)
    wire.bus.sleep_until(0.0)
    for _ in range(1500):
        wire.bus.sleep_until(wire.bus.clock() + 0.002)
    assert done in ([], ["early"]) and (head_start < 0.5 or done)
    assert isinstance(both[1].error, DeployError)
    for newcomer in both:
        newcomer.leave()


def test_a_guardian_of_another_deployment_is_as_good_as_it():
    wire = Wire("unitree-go2", silent_writers=True)
    wire.bus.join("guardian (pid 7)", drives=True).publisher(wire.robot.command_topic)
    with pytest.raises(
        DeployError, match=r"guardian \(pid 7\) drives a robot on rt/lowcmd already, or is the guardian"
    ):
        wire.robot.connect()


def test_its_own_controller_on_another_computer_of_the_robot_has_to_be_named():
    bus = MemoryBus()
    HandRobot(HARDWARE["unitree-go2"], bus).controller("")
    own = bus.join("sport", address="192.168.123.18")
    own.publisher(Topic("rt/lowcmd", "unitree_go::msg::dds_::LowCmd_"))
    with pytest.raises(DeployError, match="sport could send commands on rt/lowcmd"):
        UnitreeRobot(HARDWARE["unitree-go2"], Connection(bus=bus)).connect()
    bus.close()
    named = ["192.168.123.161", "192.168.123.18"]
    UnitreeRobot(HARDWARE["unitree-go2"], Connection(bus=bus, robot_ids=named)).connect()


def test_the_robot_is_claimed_until_the_bus_is_closed():
    wire = Wire("unitree-go2")
    wire.robot.connect()
    second = wire.driver(wire.bus.join("second"))
    with pytest.raises(DeployError, match="first drives the robot on rt/lowcmd already"):
        second.connect()
    wire.robot.close()
    second.connect()


def test_another_program_is_seen_before_the_guardian_is_made():
    wire = Wire("unitree-go2")
    wire.robot.connect()
    wire.robot.check_alone()
    wire.bus.join("second", drives=True).publisher(wire.robot.command_topic)
    with pytest.raises(DeployError, match="second drives a robot"):
        wire.robot.check_alone()
    assert wire.commanders() == ["second"]


# ---- the robot's clock ---------------------------------------------------------------------------------------------


def test_states_that_come_late_are_left_out():
    order = Order(1000.0)
    assert [order.accepts(tick) for tick in (0, 0, 10, 12, 12, 11, 14, 10, 16)] == 5 * [True] + [
        False, True, False, True,
    ]  # fmt: skip
    assert order.behind == pytest.approx(0.004)
    assert not order.accepts(0) and order.behind == pytest.approx(0.016), "it counts, so zero is long ago"


def test_a_clock_that_begins_anew_after_32_bits_goes_on():
    order = Order(1000.0, 1 << 32)
    end = (1 << 32) - 2
    assert all(order.accepts(tick) for tick in (end - 2, end, 0, 2)) and order.behind == 0.0
    assert not order.accepts(end) and order.behind == pytest.approx(0.004)


@every_wire
def test_old_states_of_the_robot_itself(name):
    wire = Wire(name)
    wire.robot.connect()
    wire.robot.take_over()
    before = wire.step(100)
    wire.hand.speaking = wire.hand.joints_speak = wire.hand.imu_speaks = False
    if name == "ros2":
        wire.hand.joints_speak = True
        wire.hand.lag = 0.1
        wire.hand.position[:] = IMPOSSIBLE
    else:
        wire.hand.speaking = True
        wire.hand.state["tick"] -= 100
        wire.hand.state["motor_state.q"][wire.hand.slots] = IMPOSSIBLE
    signals = wire.step(3)
    assert signals.stamp == before.stamp and np.abs(signals.joint_pos).max() < IMPOSSIBLE
    assert signals.health.behind == pytest.approx(0.1, abs=0.005)
