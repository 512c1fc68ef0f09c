"""A transport of float64 numbers in one row and this file: driven, rehearsed on its twin, and judged by its audit."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from gaitway_files.hardware import Hardware
from gaitway_onboard.control.controller import Mode
from gaitway_onboard.interface import Array, DeployError, Health, Remote, Signals
from gaitway_onboard.transports.open import Connection, Transport, open_robot
from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.digital_twin.command import Command, Counters
from gaitway_sim2real.digital_twin.faults import Fault
from gaitway_sim2real.digital_twin.quirks import SENSORS
from gaitway_sim2real.digital_twin.twin import TwinError, side_of
from gaitway_sim2real.hardware import hardware_from
from gaitway_sim2real.rehearse.audit import Audit
from gaitway_sim2real.rehearse.faults import TROUBLES, possible, rehearse_fault
from gaitway_sim2real.rehearse.nominal import rehearse_nominal
from gaitway_tasks.robots import GO2

COMMAND, STATE = Topic("toy/command", "toy::Numbers", depth=64), Topic("toy/state", "toy::Numbers", depth=8)


class ToyRobot:
    """The controller's end: (3, J) targets, kp, kd out; tick, orientation, gyroscope, then (3, J) of the joints in."""

    def __init__(self, hardware: Hardware, connection: Connection):
        self.bus, self.joint_names, self.period = connection.dds(), hardware.joint_names, hardware.command_period
        self.clock, self.sleep_until = self.bus.clock, self.bus.sleep_until
        self._damping = np.array([hardware.damping[name] for name in self.joint_names])
        self._signals: Any = None

    def connect(self, timeout: float = 3.0) -> None:
        self._states = self.bus.subscriber(STATE)
        self.sleep_until(self.clock() + 0.1)
        self.check_alone()

    def check_alone(self) -> None:
        if others := self.bus.writers(COMMAND):
            raise DeployError(f"{others[0].who} drives this robot")

    def take_over(self) -> None:
        self._commands = self.bus.publisher(COMMAND)

    def read(self) -> Signals:
        for stamp, payload in self._states.take_all():
            values = np.frombuffer(payload)
            pos, vel, torque = values[8:].reshape(3, -1)
            health = Health(tick=int(values[0]), tick_rate=1000.0)
            self._signals = Signals(pos, vel, values[1:5], values[5:8], stamp, joint_torque=torque, health=health)
        self._signals.health.other_writers = tuple(each.who for each in self.bus.writers(COMMAND))
        return self._signals

    def write(self, targets: Array, stiffness: Array, damping: Array) -> None:
        self._commands.send(np.array([targets, stiffness, damping], float).tobytes())

    def damp(self) -> None:
        zeros = np.zeros(len(self._damping))
        self.write(zeros, zeros, self._damping)

    def safe_stop(self) -> None: ...

    def ignore(self, identity: str) -> None: ...

    def close(self) -> None: ...


class ToyEar:
    commands, states = COMMAND, STATE

    def __init__(self, hardware: Hardware):
        self.joints = len(hardware.joint_names)

    def state(self, payload: bytes) -> tuple[Array, Array]:
        pos, vel, _ = np.frombuffer(payload)[8:].reshape(3, -1)
        return pos, vel

    def command(self, payload: bytes) -> tuple[Command | None, str]:
        if len(payload) != 24 * self.joints:
            return None, "another length"
        (targets, stiffness, damping), zeros = np.frombuffer(payload).reshape(3, -1), np.zeros(self.joints)
        return Command(np.ones(self.joints, bool), targets, zeros, zeros, stiffness, damping), ""

    def limp(self) -> bytes:
        return np.zeros((3, self.joints)).tobytes()


class ToySide:
    sport = None
    sends, obeys = (STATE.name,), (COMMAND.name,)

    def __init__(self, bus: Any, hardware: Hardware, *_: object, **__: object):
        self.bus, self.counters, self.remote, self._ear = bus, Counters(), Remote(), ToyEar(hardware)
        self._commands, self._states = bus.subscriber(COMMAND), bus.publisher(STATE)

    @staticmethod
    def period_of(hardware: Hardware) -> float:
        return 0.004

    @staticmethod
    def faults_of(hardware: Hardware) -> frozenset[Fault]:
        return frozenset({Fault.SILENCE, Fault.WRITER})

    def state(self, now: float, reading: Any, intact: bool) -> Any:
        joints = (reading.joint_pos, reading.joint_vel, reading.joint_torque)
        values = np.concatenate(([reading.tick], reading.quat_wxyz, reading.gyro, *joints))
        return [(self._states.send, values.tobytes())]

    def beside(self, *_: object) -> None: ...

    def serve(self, now: float) -> None: ...

    def receive(self) -> Any:
        return self._commands.take_all()

    def decode(self, payload: bytes) -> Command | None:
        self.counters.accepted += 1
        return self._ear.command(payload)[0]

    def intrude(self) -> None:
        self.bus.publisher(COMMAND)

    def double(self, obeys: bool) -> Any:
        return [self.bus.publisher(STATE).send]


ROW = Transport(robot=f"{__name__}:ToyRobot", twin=f"{__name__}:ToySide", audit=f"{__name__}:ToyEar")
DRIVEN_ONLY = Transport(robot=f"{__name__}:ToyRobot")
UNSTOPPABLE = Transport(robot=f"{__name__}:unstoppable")


def unstoppable(hardware: Hardware, connection: Connection) -> object:
    return object()


def toy(row: str = "ROW") -> Hardware:
    go2 = hardware_from(GO2)
    assert go2 is not None
    return dataclasses.replace(go2, name="toy-go2", family=f"{__name__}:{row}")


def test_a_robot_is_rehearsed_over_a_transport_from_elsewhere(go2_bundle: Path) -> None:
    trial, trace = rehearse_nominal(go2_bundle, toy(), seconds=1.5, quirks=SENSORS, seed=1)
    assert (trial.outcome, trial.failures()) == ("finished", [])
    assert len(trace.time) == 75 and 0.05 < np.nanmax(trace.share) < 1.0
    assert trial.facts["command frames"] > 500 * 5


@pytest.mark.parametrize("name", ["silence", "writer", "commander", "second-deploy"])
def test_its_faults_are_tried_and_found(go2_bundle: Path, name: str) -> None:
    trouble = next(each for each in TROUBLES if each.name == name)
    trial = rehearse_fault(go2_bundle, toy(), trouble, Mode.HOLD, quirks=SENSORS)
    assert trial.failures() == []


def test_troubles_that_its_wire_cannot_carry_are_left_out() -> None:
    left = {each.name for each in TROUBLES if possible(each, toy(), cast(Any, None), Mode.HOLD)}
    assert {"silence", "writer", "stall", "commander"} <= left and not {"checksum", "motor-lost", "battery"} & left


def test_rows_that_lack_a_part_are_refused_by_name() -> None:
    with pytest.raises(DeployError, match="'my_wire'"):
        Transport(robot="my_wire")
    with pytest.raises(DeployError, match="twin is 'ToySide'"):
        Transport(robot="my_wire:open", twin="ToySide")
    with pytest.raises(TwinError, match="toy-go2"):
        side_of(toy("DRIVEN_ONLY"))
    with pytest.raises(DeployError, match="toy-go2 has no audit"):
        Audit(MemoryBus("audit"), toy("DRIVEN_ONLY"))
    with pytest.raises(DeployError, match="safe_stop"):
        open_robot(toy("UNSTOPPABLE"), Connection(bus=MemoryBus("computer")))
