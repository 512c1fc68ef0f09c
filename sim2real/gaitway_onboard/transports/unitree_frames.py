"""The two messages that go over a Unitree robot's wire at its control rate, as arrays in the order of its joints."""

from __future__ import annotations

import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.hardware import Hardware
from numpy.typing import NDArray

from ..interface import Array, DeployError, Health, Remote, Signals
from ..wire import crc
from ..wire.declarations import GO_LOW_CMD, GO_LOW_STATE, HG_LOW_CMD, HG_LOW_STATE
from ..wire.idl import Struct
from ..wire.layouts import layout_of
from .imu import imu_in_base
from .remote import parse_remote

COMMANDS: dict[str, Struct] = {"unitree_go": GO_LOW_CMD, "unitree_hg": HG_LOW_CMD}
STATES: dict[str, Struct] = {"unitree_go": GO_LOW_STATE, "unitree_hg": HG_LOW_STATE}
POSITION_STOP, VELOCITY_STOP = 2.146e9, 16000.0
"""Unitree's "no command", for slots that drive nothing."""
LOW_LEVEL = 0xFF
TICKS, WRAPS = 1000.0, 1 << 32
"""Rate and wrap-around of a state's tick: milliseconds, as Unitree documents it, in 32 bits."""
Slots = slice | NDArray[np.intp]


def slots_of(hardware: Hardware) -> Slots:
    """Slots of the joints, in their order; a slice where there is no gap, since numpy is twice as fast with it."""
    slots = [slot for slot, name in enumerate(hardware.motors) if name is not None]
    if slots == list(range(len(slots))):
        return slice(0, len(slots))
    return np.array(slots, np.intp)


def modes_of(hardware: Hardware) -> list[int]:
    """Mode byte that switches each joint's motor on."""
    if not hardware.enable:
        raise DeployError(f"{hardware.name}: {hardware.family} needs enable, the mode byte of each joint's motor")
    return [hardware.enable[name] for name in hardware.joint_names]


class CommandFrame:
    """``rt/lowcmd``: all but targets and gains is written once."""

    def __init__(self, hardware: Hardware):
        self.message = layout_of(COMMANDS[hardware.family]).new()
        self._slots = slots_of(hardware)
        message, family = self.message, hardware.family
        modes = np.zeros(message["motor_cmd.mode"].shape, np.uint8)
        if len(hardware.motors) > len(modes):
            raise DeployError(f"{hardware.name}: {len(hardware.motors)} motors, and {family} has room for {len(modes)}")
        modes[self._slots] = modes_of(hardware)
        message["motor_cmd.mode"] = modes
        message["motor_cmd.q"], message["motor_cmd.dq"] = POSITION_STOP, VELOCITY_STOP
        message["motor_cmd.dq"][self._slots] = 0.0
        if family == "unitree_go":
            message["head"], message["level_flag"] = (0xFE, 0xEF), LOW_LEVEL
        else:
            message["mode_pr"] = hardware.mode_pr
        self._q, self._kp, self._kd = (message[f"motor_cmd.{name}"] for name in ("q", "kp", "kd"))

    def fill(self, targets: Array | float, stiffness: Array | float, damping: Array) -> None:
        """Raises ValueError if a number does not fit into the wire's float32: such a frame must not be sent."""
        slots = self._slots
        with np.errstate(over="ignore"):
            self._q[slots], self._kp[slots], self._kd[slots] = targets, stiffness, damping
        if not np.isfinite(self._q[slots].sum() + self._kp[slots].sum() + self._kd[slots].sum()):
            raise UserError("a command that is not finite: it was not sent")

    def echo_machine(self, machine: int) -> None:
        """Repeat the robot's ``mode_machine``, without which "unitree_hg" ignores a command."""
        self.message["mode_machine"] = machine

    def sealed(self) -> bytearray:
        """The payload with its checksum; valid until the next :meth:`fill`."""
        crc.seal(self.message)
        return self.message.payload


class StateFrame:
    """``rt/lowstate``: the newest one that was loaded."""

    def __init__(self, hardware: Hardware):
        self.message = layout_of(STATES[hardware.family]).new()
        self._arrived = layout_of(STATES[hardware.family]).new()
        self._go, self._slots = hardware.family == "unitree_go", slots_of(hardware)
        message = self.message
        names = {"pos": "q", "vel": "dq", "torque": "tau_est", "temperature": "temperature"}
        self._joint = {name: message[f"motor_state.{field}"] for name, field in names.items()}
        self._lost = message["motor_state.lost"] if self._go else None
        imu = {"quat": "quaternion", "gyro": "gyroscope", "accelerometer": "accelerometer"}
        self._imu = {name: message[f"imu_state.{field}"] for name, field in imu.items()}
        waist = hardware.imu_joint
        self._waist = None if waist is None else hardware.joint_names.index(waist)
        self._feet = message["foot_force"] if hardware.feet else None
        self._tick, self._arrived_tick = message["tick"], self._arrived["tick"]
        self._remote_bytes = b""
        self._remote: Remote | None = None

    @property
    def machine(self) -> int | None:
        """``mode_machine``, where the wire has one."""
        return None if self._go else int(self.message["mode_machine"])

    def whole(self, payload: bytes) -> bool:
        """True if its checksum is right; raises :class:`WireError` if the payload is not such a message."""
        self._arrived.load(payload)
        return crc.check(self._arrived)

    @property
    def unsealed(self) -> bool:
        """True if the payload that :meth:`whole` read last has zero in place of a checksum."""
        return not self._arrived["crc"]

    @property
    def arrived_tick(self) -> int:
        """Tick of the payload that :meth:`whole` read last."""
        return int(self._arrived_tick)

    def signals(self, stamp: float) -> Signals:
        """A copy of the state."""
        joint, slots = self._joint, self._slots
        temperature = joint["temperature"][slots]
        position, velocity = joint["pos"][slots].astype(float), joint["vel"][slots].astype(float)
        quat, gyro, accelerometer = (view.astype(float) for view in self._imu.values())
        if self._waist is not None:
            imu_in_base(quat, gyro, accelerometer, position[self._waist], velocity[self._waist])
        return Signals(
            joint_pos=position,
            joint_vel=velocity,
            imu_quat_wxyz=quat,
            gyro=gyro,
            stamp=stamp,
            accelerometer=accelerometer,
            joint_torque=joint["torque"][slots].astype(float),
            foot_force=None if self._feet is None else self._feet.astype(float),
            health=Health(
                tick=int(self._tick),
                tick_rate=TICKS,
                motor_temperature=(temperature if self._go else temperature.max(1)).astype(float),
                motor_lost=None if self._lost is None else self._lost[slots].copy(),
            ),
        )

    def charge(self) -> float | None:
        """Charge of the battery, of 1; None where the state has none, or the battery is silent, as in simulators."""
        if not self._go or not (self.message["bms_state.soc"] or self.message["bms_state.cell_vol"].any()):
            return None
        return float(self.message["bms_state.soc"]) / 100.0

    def remote(self) -> Remote | None:
        """Parsed only when it changes."""
        data = self.message["wireless_remote"].tobytes()
        if data != self._remote_bytes:
            self._remote_bytes, self._remote = data, parse_remote(data)
        return self._remote

    def speaks(self, slot: int) -> bool:
        """True if the motor in this slot reports anything but zeros."""
        return any(bool(np.any(values[slot])) for values in self._joint.values())
