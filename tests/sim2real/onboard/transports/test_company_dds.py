"""Two robots, a recording and a second deployment on real DDS, on loopback."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
from gaitway_onboard.interface import DeployError
from gaitway_onboard.transports.open import Connection
from gaitway_onboard.transports.unitree import UnitreeRobot
from gaitway_onboard.wire import dds
from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.crc import seal
from gaitway_onboard.wire.dds import DdsBus
from gaitway_onboard.wire.declarations import GO_LOW_STATE, HG_LOW_STATE
from gaitway_onboard.wire.layouts import layout_of
from gaitway_sim2real.hardware import HARDWARE

pytestmark = pytest.mark.hostile("deployment")
STATE = Topic("rt/lowstate", GO_LOW_STATE.name)
PATIENCE = 20.0


class Robot:
    """Says every 5 ms that its joints are at ``position`` [rad]; hears nobody."""

    def __init__(self, domain: int, position: float):
        self.bus, self.position, self._over = DdsBus("lo", domain), position, threading.Event()
        self.publisher = self.bus.publisher(STATE)
        self._thread = threading.Thread(target=self.run)
        self._thread.start()

    def state(self, clock: float, position: float) -> bytes:
        state = layout_of(GO_LOW_STATE).new()
        state["tick"], state["imu_state.quaternion"][0] = round(1e3 * clock) & 0xFFFFFFFF, 1.0
        state["motor_state.q"][:12] = position
        seal(state)
        return bytes(state.payload)

    def run(self) -> None:
        while not self._over.wait(0.005):
            self.publisher.send(self.state(time.monotonic(), self.position))

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self.bus.close()


@pytest.fixture
def open_(dds_domain):
    """Makes robots and buses of this domain, and closes them."""
    with contextlib.ExitStack() as stack:

        def make(kind, *args, **options):
            made = kind(dds_domain, *args) if kind is Robot else DdsBus("lo", dds_domain, **options)
            stack.callback(made.close)
            return made

        yield make


def driver(bus: DdsBus, **options) -> UnitreeRobot:
    return UnitreeRobot(HARDWARE["unitree-go2"], Connection(bus=bus, own_controller=False, **options))


def reads(robot: UnitreeRobot, until, wrong: float):
    """Last reading, for which ``until`` is true; fails on a joint at ``wrong`` [rad]."""
    deadline = time.monotonic() + PATIENCE
    while not until(signals := robot.read()):
        assert time.monotonic() < deadline, "waited in vain"
        assert signals.joint_pos[0] != pytest.approx(wrong)
        robot.sleep_until(robot.clock() + 0.002)
    return signals


def test_states_that_are_sent_again_by_another_are_never_read(open_):
    right, robot = open_(Robot, 0.1), driver(open_(DdsBus))
    robot.connect()
    robot.take_over()
    again = open_(DdsBus).publisher(STATE)
    old = right.state(time.monotonic(), 0.2)

    def told(signals):
        again.send(old)
        return signals.health.other_sources

    signals = reads(robot, told, 0.2)
    assert "pid" in signals.health.other_sources[0] and "pid" in signals.health.source
    assert right.bus.guid.replace("-", "")[:24] in signals.health.source
    for _ in range(20):
        again.send(old)
        assert robot.read().joint_pos[0] == pytest.approx(0.1)


def test_of_two_robots_the_one_that_is_meant_is_driven_if_the_other_hears_nothing(open_):
    right, other, bus = open_(Robot, 0.1), open_(Robot, 0.2), open_(DdsBus)
    ids = [each.bus.guid.replace("-", "")[:24] for each in (right, other)]
    with pytest.raises(DeployError, match="two robots, or a recording") as refused:
        driver(bus).connect()
    assert all(f"id {each}" in str(refused.value) for each in ids)

    robot = driver(open_(DdsBus), robot_ids=ids[:1])
    bus.close()
    robot.connect()
    robot.take_over()
    for _ in range(100):
        assert robot.read().joint_pos[0] == pytest.approx(0.1) and not robot.read().health.other_sources
        robot.sleep_until(robot.clock() + 0.002)
    other.bus.subscriber(robot.command_topic)
    assert ids[1] in reads(robot, lambda signals: signals.health.other_sources, 0.2).health.other_sources[0]
    robot.close()
    with pytest.raises(DeployError, match=f"{ids[1]} would hear each command too"):
        driver(open_(DdsBus), robot_ids=ids[:1]).connect()


def test_a_robot_of_another_kind_beside(open_):
    open_(Robot, 0.1)
    open_(DdsBus).publisher(Topic(STATE.name, HG_LOW_STATE.name))
    with pytest.raises(DeployError, match="two robots, or a recording"):
        driver(open_(DdsBus)).connect()


def test_a_second_deployment_is_refused_and_the_first_does_not_notice(open_, monkeypatch):
    open_(Robot, 0.1)
    first = driver(open_(DdsBus, drives=True))
    first.connect()
    first.take_over()
    with pytest.raises(DeployError, match=r"this computer, process \d+, drives the robot on rt/lowcmd already"):
        driver(open_(DdsBus, drives=True)).connect()
    monkeypatch.setattr(dds, "claim", lambda *args: contextlib.nullcontext())  # as on another computer
    with pytest.raises(DeployError, match=r"pid \d+ .* drives a robot on rt/lowcmd already, or is the guardian"):
        driver(open_(DdsBus, drives=True)).connect()
    first._looked = float("-inf")
    assert first.read().health.other_writers == ()
