"""Commands from a ROS topic, and what silence and nonsense make of them."""

import math

import pytest
from gaitway_onboard.transports.cmd_vel import CmdVel
from gaitway_onboard.wire.declarations import TWIST, TWIST_STAMPED
from gaitway_onboard.wire.idl import encode
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_onboard.wire.ros import ros_topic

STILL = (0.0, 0.0, 0.0)


def twist(vx, vy, yaw):
    return {"linear": {"x": vx, "y": vy}, "angular": {"z": yaw}}


@pytest.mark.parametrize("stamped", [False, True])
def test_the_newest_twist_until_it_is_stale(stamped):
    bus = MemoryBus()
    source = CmdVel(bus, "/cmd_vel", stamped=stamped)
    publisher = bus.join("teleop").publisher(ros_topic("/cmd_vel", TWIST_STAMPED if stamped else TWIST))
    assert source(0.0) == STILL

    def send(*command):
        message = twist(*command)
        publisher.send(encode(TWIST_STAMPED, {"twist": message}) if stamped else encode(TWIST, message))

    send(0.5, 0.0, 0.0)
    send(0.5, -0.25, 0.125)
    assert source(0.0) == (0.5, -0.25, 0.125)
    bus.sleep_until(0.5)
    assert source(99.0) == (0.5, -0.25, 0.125)
    bus.sleep_until(0.51)
    assert source(0.0) == STILL
    send(1.0, 0.0, 0.0)
    assert source(0.0) == (1.0, 0.0, 0.0)


def test_nonsense_stops_the_robot():
    bus = MemoryBus()
    source = CmdVel(bus)
    publisher = bus.join("teleop").publisher(ros_topic("/cmd_vel", TWIST))
    for nonsense in (encode(TWIST, twist(math.nan, 0.0, 0.0)), encode(TWIST, twist(0.0, math.inf, 0.0)), b"\0\1\0\0x"):
        publisher.send(encode(TWIST, twist(0.5, 0.0, 0.0)))
        assert source(0.0) == (0.5, 0.0, 0.0)
        publisher.send(nonsense)
        assert source(0.0) == STILL
