"""The judge of frames, on frames made by hand."""

import numpy as np
import pytest
from gaitway_onboard.transports.unitree_frames import COMMANDS, STATES
from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.crc import seal
from gaitway_onboard.wire.layouts import layout_of
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.rehearse.audit import Audit
from gaitway_tasks.robots import GO2

HARDWARE = GO2.hardware


class Wire:
    """A bus with both sides in the hands of the test."""

    def __init__(self):
        self.bus = MemoryBus("hand")
        self.audit = Audit(self.bus.join("audit"), HARDWARE)
        command, state = COMMANDS[HARDWARE.family], STATES[HARDWARE.family]
        self.command, self.state = layout_of(command).new(), layout_of(state).new()
        self._commands = self.bus.publisher(Topic("rt/lowcmd", command.name))
        self._states = self.bus.publisher(Topic("rt/lowstate", state.name))
        self.command["motor_cmd.mode"] = np.array([motor is not None for motor in HARDWARE.motors], np.uint8)

    def say(self, pos=0.0, vel=0.0, *, sealed=True):
        self.state["motor_state.q"][:12], self.state["motor_state.dq"][:12] = pos, vel
        if sealed:
            seal(self.state)
        self._states.send(self.state.payload)

    def order(self, **fields):
        for name, value in fields.items():
            self.command[f"motor_cmd.{name}"][:12] = value
        seal(self.command)
        self._commands.send(self.command.payload)
        self.audit.collect()
        return self.audit.frames[-1]


@pytest.fixture
def wire():
    return Wire()


def test_share_is_the_torque_law_of_the_state_before(wire):
    wire.say(pos=0.5, vel=2.0)
    frame = wire.order(q=0.7, kp=20.0, kd=1.5)
    q, kp, kd = (float(np.float32(x)) for x in (0.7, 20.0, 1.5))
    assert frame.share == pytest.approx(abs(kp * (q - 0.5) - kd * 2.0) / 23.7, abs=1e-12)
    assert frame.stiff and frame.faults == ""
    wire.bus.time = 0.002
    wire.say(pos=0.0, vel=0.0)
    assert wire.order().share == pytest.approx(kp * q / 23.7, abs=1e-12)
    assert wire.audit.checks()[0].value == wire.audit.frames[-1].share


def test_calves_have_their_own_limit(wire):
    wire.say()
    targets = np.zeros(12)
    targets[2] = 1.0
    assert wire.order(q=targets, kp=40.0).share == pytest.approx(40.0 / 45.43)


def test_a_stricter_limit_than_the_hardwares():
    wire = Wire()
    wire.audit = Audit(wire.bus.join("audit"), HARDWARE, np.full(12, 10.0))
    wire.say()
    assert wire.order(q=1.0, kp=10.0).share == pytest.approx(1.0)


def test_states_with_a_wrong_checksum_are_answered_by_nobody(wire):
    wire.say(pos=0.1)
    wire.say(pos=3.0, sealed=False)
    assert wire.order(q=0.1, kp=10.0).share == pytest.approx(0.0, abs=1e-6)


def test_damping_is_not_stiff(wire):
    wire.say(vel=4.0)
    wire.order(q=2.146e9, kp=0.0, kd=3.0)
    frame = wire.audit.frames[-1]
    assert not frame.stiff and frame.share == pytest.approx(12.0 / 23.7)
    assert wire.order(tau=0.5).stiff


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["q", "kp", "kd", "tau", "dq"])
def test_what_is_not_finite_is_beyond_every_limit(wire, field, value):
    wire.say()
    frame = wire.order(**{field: value})
    assert frame.share == np.inf and "not finite" in frame.faults


def test_broken_frames_are_named(wire):
    wire.say()
    wire.order(q=0.0, kp=1.0)
    wire.command["motor_cmd.q"][0] = 0.3
    wire._commands.send(wire.command.payload)
    wire.command["motor_cmd.mode"] = np.zeros(20, np.uint8)
    seal(wire.command)
    wire._commands.send(wire.command.payload)
    wire.command["motor_cmd.kp"][15] = 1.0
    seal(wire.command)
    wire._commands.send(wire.command.payload)
    wire._commands.send(wire.command.payload[:100])
    wire.audit.collect()
    assert [frame.faults.split(";")[0] for frame in wire.audit.frames[1:4]] == [
        "wrong checksum",
        "a motor is not switched on",
        "a motor is not switched on",
    ]
    assert "an unused motor is driven" in wire.audit.frames[3].faults
    assert "100 bytes" in wire.audit.frames[4].faults


def test_before_the_first_state_nothing_can_be_judged(wire):
    assert np.isnan(wire.order(q=1.0, kp=1.0).share) and np.isnan(wire.audit.checks()[0].value)


def test_time_orders_what_came_between_two_collections(wire):
    for k in range(5):
        wire.bus.time = 0.002 * k
        wire.say(pos=float(k))
        wire.command["motor_cmd.q"][:12], wire.command["motor_cmd.kp"][:12] = k, 1.0
        seal(wire.command)
        wire._commands.send(wire.command.payload)
    wire.audit.collect()
    assert [frame.share for frame in wire.audit.frames] == [0.0] * 5
    assert [frame.time for frame in wire.audit.since(0.004)] == [0.004, 0.006, 0.008]
