"""The robot's end of Unitree's topics: states, battery and transmitter out, commands in, services answered."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import numpy as np
from gaitway_files.hardware import Hardware
from gaitway_onboard.interface import Array, Remote, button_bits
from gaitway_onboard.transports.unitree import BATTERY, COMMAND, REMOTE, STATE
from gaitway_onboard.transports.unitree_frames import COMMANDS, STATES, modes_of, slots_of
from gaitway_onboard.wire import crc
from gaitway_onboard.wire.bus import Bus, Topic
from gaitway_onboard.wire.declarations import HG_BMS_STATE, SPORT_MODE_STATE, WIRELESS_CONTROLLER
from gaitway_onboard.wire.idl import WireError
from gaitway_onboard.wire.layouts import layout_of

from ..mujoco.body import Body, Truth
from .command import Command, Counters
from .drives import Drives
from .faults import Fault
from .quirks import QuirkError, Quirks
from .sensors import Reading
from .services import MotionSwitcher, SportService
from .side import Send, Side
from .sport import SportMode

SPORT_STATE = "rt/sportmodestate"
QUEUE = 64  # commands that may come between two looks
HEAD = b"\xfe\xef"
PERIOD = 0.002  # [s] between two states
SLOW_PERIOD = 0.02  # [s] of what is not needed at the control rate
BATTERY_PERIOD = 0.1
_REMOTE_BYTES = struct.Struct("<2sH5f")
_CELLS, _CELL_FULL, _CELL_EMPTY = 8, 4.1, 3.3  # [V]


class UnitreeSide(Side):
    """Speaks for a robot whose joints are in the order of the wire."""

    def __init__(
        self,
        bus: Bus,
        hardware: Hardware,
        body: Body,
        drives: Drives,
        quirks: Quirks,
        *,
        standing: bool,
        own_controller: bool,
    ):
        self.bus, self.hardware, self._go = bus, hardware, hardware.family == "unitree_go"
        name = "normal" if self._go else "ai"
        self.sport = sport = SportMode(name, body, drives, standing=standing) if own_controller else None
        self.counters, self.remote = Counters(), Remote()
        command, state = COMMANDS[hardware.family], STATES[hardware.family]
        self.command_topic = Topic(COMMAND, command.name, depth=QUEUE)
        self.commands = bus.subscriber(self.command_topic)
        self._state_topic = Topic(STATE, state.name)
        self._states = bus.publisher(self._state_topic)
        self._command, self._state = layout_of(command).new(), layout_of(state).new()
        self._slots = slots_of(hardware)
        foot_names = body.foot_names
        known = set(foot_names) >= set(hardware.feet)
        self._feet = [foot_names.index(name) for name in hardware.feet] if known else list(range(len(hardware.feet)))
        self._enable = np.array(modes_of(hardware))
        self._remote_out = bus.publisher(Topic(REMOTE, WIRELESS_CONTROLLER.name)) if self._go else None
        self._sport_out = bus.publisher(Topic(SPORT_STATE, SPORT_MODE_STATE.name)) if self._go and sport else None
        self._battery_out = None if self._go else bus.publisher(Topic(BATTERY, HG_BMS_STATE.name))
        self._remote_message, self._sport_message = (
            layout_of(kind).new() for kind in (WIRELESS_CONTROLLER, SPORT_MODE_STATE)
        )
        self._next_slow = self._next_battery = -math.inf
        self._services: list[MotionSwitcher | SportService] = []
        if sport is not None:
            self._services = [MotionSwitcher(bus, sport, quirks.motion_switcher), SportService(bus, sport)]
            if quirks.own_writer == "stays":
                self.intrude()
        self._imu = [self._state[f"imu_state.{name}"] for name in ("quaternion", "gyroscope", "accelerometer", "rpy")]
        self._motors = [self._state[f"motor_state.{name}"] for name in ("q", "dq", "tau_est")]
        self._asked = [self._command[f"motor_cmd.{name}"] for name in ("q", "dq", "tau", "kp", "kd")]
        self._health: tuple[object, ...] = 4 * (None,)
        self._machine = self._mode_machine(quirks)
        if self._go:
            self._state["head"], self._state["level_flag"] = tuple(HEAD), 0xFF
        else:
            self._state["mode_pr"], self._state["mode_machine"] = hardware.mode_pr, self._machine

    @staticmethod
    def period_of(hardware: Hardware) -> float:
        return PERIOD

    @staticmethod
    def faults_of(hardware: Hardware) -> frozenset[Fault]:
        return frozenset(Fault) if hardware.family == "unitree_go" else frozenset(Fault) - {Fault.LOST}

    def _mode_machine(self, quirks: Quirks) -> int:
        if self._go and quirks.mode_machine:
            raise QuirkError(f"quirk mode_machine: {self.hardware.name} has none")
        return int(quirks.mode_machine) or next(iter(self.hardware.mode_machines), 0)

    @property
    def sends(self) -> tuple[str, ...]:
        beside = [SPORT_STATE] if self._sport_out is not None else []
        beside.append(REMOTE if self._go else BATTERY)
        return (f"{STATE} at {1.0 / PERIOD:.0f} Hz", *beside)

    @property
    def obeys(self) -> tuple[str, ...]:
        return (COMMAND, *(f"service {service.name}" for service in self._services if service.present))

    # ---- out -------------------------------------------------------------------------------------------------------

    def state(self, now: float, reading: Reading, intact: bool) -> list[tuple[Send, bytes]]:
        message, quat, slots = self._state, reading.quat_wxyz, self._slots
        message["tick"] = reading.tick
        for view, imu in zip(self._imu, (quat, reading.gyro, reading.accelerometer, _rpy(quat)), strict=True):
            view[:] = imu
        for view, joints in zip(
            self._motors, (reading.joint_pos, reading.joint_vel, reading.joint_torque), strict=True
        ):
            view[slots] = joints
        if self.hardware.feet:
            message["foot_force"] = np.minimum(np.rint(reading.foot_force[self._feet]), 32767)
        health = (reading.temperature, reading.lost, reading.battery, self.remote)
        if any(new is not old for new, old in zip(health, self._health, strict=True)):
            self._health = health
            self._write_health(reading)
        crc.seal(message)
        if not intact:
            message["crc"] ^= 0xFFFFFFFF
        return [(self._states.send, bytes(message.payload))]

    def _write_health(self, reading: Reading) -> None:
        """The fields that rarely change."""
        message, slots = self._state, self._slots
        temperature = np.clip(np.rint(reading.temperature), 0, 255)
        message["motor_state.temperature"][slots] = temperature if self._go else temperature[:, None]
        if self._go:
            message["motor_state.lost"][slots] = reading.lost
            message["bms_state.soc"] = round(100.0 * reading.battery)
            message["power_v"] = _voltage(reading.battery)
        message["wireless_remote"] = self._remote_bytes()

    def beside(self, now: float, reading: Reading, truth: Callable[[], Truth]) -> None:
        if now >= self._next_slow:
            self._next_slow = now + SLOW_PERIOD
            if self._remote_out is not None:
                self._send_remote()
            if self._sport_out is not None and self.sport is not None and self.sport.active:
                self._sport_out.send(self._sport_state(now, reading, truth()))
        if self._battery_out is not None and now >= self._next_battery:
            self._next_battery = now + BATTERY_PERIOD
            message = layout_of(HG_BMS_STATE).new()
            message["soc"], message["soh"] = round(100.0 * reading.battery), 100
            message["bmsvoltage"][0] = round(1000.0 * _voltage(reading.battery))
            self._battery_out.send(message.payload)

    def double(self, obeys: bool) -> list[Send]:
        if obeys:
            self.bus.subscriber(self.command_topic)
        return [self.bus.publisher(self._state_topic).send]

    def _remote_bytes(self) -> np.ndarray:
        (left_x, left_y), (right_x, right_y) = self.remote.left, self.remote.right
        lever = float("L2" in self.remote.buttons)
        data = _REMOTE_BYTES.pack(
            b"\x55\x51", button_bits(self.remote.buttons), left_x, right_x, right_y, lever, left_y
        )
        return np.frombuffer(data.ljust(40, b"\0"), np.uint8)

    def _send_remote(self) -> None:
        assert self._remote_out is not None
        message = self._remote_message
        (message["lx"], message["ly"]), (message["rx"], message["ry"]) = self.remote.left, self.remote.right
        message["keys"] = button_bits(self.remote.buttons)
        self._remote_out.send(message.payload)

    def _sport_state(self, now: float, reading: Reading, truth: Truth) -> bytes:
        assert self.sport is not None
        message = self._sport_message
        message["stamp.sec"], message["stamp.nanosec"] = int(now), int(1e9 * (now % 1.0))
        message["imu_state.quaternion"], message["imu_state.gyroscope"] = reading.quat_wxyz, reading.gyro
        message["imu_state.accelerometer"], message["imu_state.rpy"] = reading.accelerometer, _rpy(reading.quat_wxyz)
        message["mode"] = self.sport.number
        message["position"], message["body_height"] = truth.base_pos, truth.height
        message["velocity"], message["yaw_speed"] = truth.base_lin_vel, truth.base_ang_vel[2]
        return bytes(message.payload)

    # ---- in --------------------------------------------------------------------------------------------------------

    def decode(self, payload: bytes) -> Command | None:
        message, counters, slots = self._command, self.counters, self._slots
        try:
            message.load(payload)
        except WireError:
            counters.foreign += 1
            return None
        if not crc.check(message):
            counters.corrupt += 1
            return None
        if self._go:
            wrong = message["head"].tobytes() != HEAD
        else:
            wrong = int(message["mode_machine"]) != self._machine
        if wrong:
            counters.foreign += 1
            return None
        asked = np.array([view[slots] for view in self._asked], float)
        if not np.isfinite(asked).all():
            counters.not_finite += 1
            return None
        command = Command(message["motor_cmd.mode"][slots] == self._enable, *asked)
        if self.sport is not None and self.sport.active:
            counters.refused += 1
            return None
        counters.accepted += 1
        return command

    def serve(self, now: float) -> None:
        for service in self._services:
            service.serve(now)


def _rpy(quat: Array) -> tuple[float, float, float]:
    """Roll, pitch and yaw [rad] of an orientation (w, x, y, z)."""
    w, x, y, z = quat.tolist()
    sine = 2.0 * (w * y - z * x)
    return (
        math.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y)),
        math.asin(max(-1.0, min(1.0, sine))) if math.isfinite(sine) else math.nan,
        math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)),
    )


def _voltage(battery: float) -> float:
    """[V]"""
    return _CELLS * (_CELL_EMPTY + (_CELL_FULL - _CELL_EMPTY) * battery)
