"""Whatever comes on the topic of states: what is not a whole state changes nothing but a counter."""

from __future__ import annotations

import numpy as np
import pytest
from gaitway_onboard.transports.open import Connection
from gaitway_onboard.transports.unitree import UnitreeRobot
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.hardware import HARDWARE
from hypothesis import given, settings
from hypothesis import strategies as st

from .robots_by_hand import HandRobot


def listening(name: str) -> tuple[UnitreeRobot, HandRobot]:
    bus = MemoryBus()
    robot, hand = (
        UnitreeRobot(HARDWARE[name], Connection(bus=bus, own_controller=False)),
        HandRobot(HARDWARE[name], bus),
    )
    robot.connect()
    hand.speaking = False
    return robot, hand


@pytest.fixture(scope="module", params=["unitree-go2", "unitree-g1"])
def heard(request) -> tuple[UnitreeRobot, HandRobot]:
    return listening(request.param)


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_a_bit_that_flips_is_noticed_wherever_it_matters(heard, data):
    robot, hand = heard
    layout = hand.state.layout
    good, before = robot.read(), robot.read().health.corrupt
    payload = bytearray(hand.state.payload)
    position = data.draw(st.integers(4, len(payload) - 1))
    payload[position] ^= 1 << data.draw(st.integers(0, 7))
    hand._states.send(payload)
    signals = robot.read()
    if position in layout.image_index or position >= layout.fields["crc"].offsets:
        assert signals is good and signals.health.corrupt == before + 1
    else:  # a byte that CDR pads with
        np.testing.assert_array_equal(signals.joint_pos, good.joint_pos)
        assert signals.health.corrupt == before


@given(payload=st.one_of(st.binary(max_size=3000), st.integers(0, 2100).map(bytes)))
@settings(max_examples=200, deadline=None)
def test_bytes_that_are_no_state(heard, payload):
    robot, hand = heard
    good = robot.read()
    hand._states.send(payload)
    assert robot.read() is good


def test_a_state_among_noise_is_found():
    robot, hand = listening("unitree-go2")
    hand.state["motor_state.q"][0] = 0.6
    hand._states.send(b"")
    hand.send()
    hand._states.send(bytes(hand.state.payload)[:-8])
    assert robot.read().joint_pos[0] == np.float32(0.6)
