"""Audit of a Unitree robot's wire from its bytes alone, which trusts neither end."""

from __future__ import annotations

import numpy as np
from gaitway_files.hardware import Hardware
from gaitway_onboard.interface import Array
from gaitway_onboard.transports.unitree import COMMAND, STATE
from gaitway_onboard.transports.unitree_frames import COMMANDS, STATES, CommandFrame, modes_of
from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.crc import check
from gaitway_onboard.wire.idl import WireError
from gaitway_onboard.wire.layouts import layout_of

from .command import Command


class UnitreeEar:
    def __init__(self, hardware: Hardware):
        command, state = COMMANDS[hardware.family], STATES[hardware.family]
        self.hardware = hardware
        self.commands, self.states = Topic(COMMAND, command.name), Topic(STATE, state.name)
        self._command, self._state = layout_of(command).new(), layout_of(state).new()
        self._slots = np.array([slot for slot, joint in enumerate(hardware.motors) if joint is not None])
        self._unused = np.array([slot for slot, joint in enumerate(hardware.motors) if joint is None], dtype=int)
        self._enable = np.array(modes_of(hardware))

    def state(self, payload: bytes) -> tuple[Array, Array] | None:
        try:
            self._state.load(payload)
        except WireError:
            return None
        if not check(self._state):
            return None
        pos, vel = (self._state[f"motor_state.{name}"][self._slots].astype(float) for name in ("q", "dq"))
        return pos, vel

    def command(self, payload: bytes) -> tuple[Command | None, str]:
        message = self._command
        try:
            message.load(payload)
        except WireError as error:
            return None, str(error)
        faults = [] if check(message) else ["wrong checksum"]
        enabled = message["motor_cmd.mode"][self._slots] == self._enable
        if not enabled.all():
            faults.append("a motor is not switched on")
        if any(message[f"motor_cmd.{name}"][self._unused].any() for name in ("mode", "kp", "kd", "tau")):
            faults.append("an unused motor is driven")
        asked = (message[f"motor_cmd.{name}"][self._slots].astype(float) for name in ("q", "dq", "tau", "kp", "kd"))
        return Command(enabled, *asked), "; ".join(faults)

    def limp(self) -> bytes:
        frame = CommandFrame(self.hardware)
        frame.fill(0.0, 0.0, np.zeros(len(self.hardware.joint_names)))
        return bytes(frame.sealed())
