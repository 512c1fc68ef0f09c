"""Encoding of the controller's messages as records: the same for a file in this process and for a ring to another."""

from __future__ import annotations

import json
import math
import struct
import threading
import time as wall
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ..interface import Array, Signals, button_bits
from ..wire.idl import HEADER
from .log import FlightLog
from .messages import (
    EVENT_SCHEMA,
    EVENT_SCHEMA_NAME,
    Field,
    FlightError,
    MessageType,
    field_of,
    pack_event,
    pack_string,
    widen,
)

if TYPE_CHECKING:
    from ..interface import Decision


class Sink(Protocol):
    """Destination of records. Calls do not come from two threads at once."""

    def define(self, channel: int, topic: str, name: str, schema: str, metadata: Mapping[str, str]) -> None:
        """Define the records of ``channel``; a later definition of the same channel replaces an earlier one."""
        ...

    def write(self, channel: int, log_time: int, sequence: int, payload: bytes, vital: bool) -> bool:
        """Take one record, ``log_time`` in ns since the Unix epoch; False if it had to be dropped."""
        ...

    @property
    def trouble(self) -> str | None:
        """Reason why records are no longer stored; None too where :meth:`write` raises that."""
        return None

    @property
    def pid(self) -> int | None:
        """Process that writes the file; None if it is this one."""
        return None

    def close(self, summary: Mapping[str, str], told: Sequence[LoggedEvent] = ()) -> None:
        """Finish the record. ``summary`` says how much was told; ``told`` are the events, should any be missing."""
        ...


class LoggedEvent(NamedTuple):
    """An event as it was handed to the sink."""

    log_time: int
    sequence: int
    payload: bytes
    clock_zero_ns: int


STATE, FRAME, POLICY, EVENT = 1, 2, 3, 4
COMMAND = "command_"
"""Begins the names of the fields of a policy's command."""
TOPICS = {STATE: "/state", FRAME: "/frame", POLICY: "/policy", EVENT: "/event"}
F8, I8, U4, U2, BOOL = (np.dtype(code) for code in ("<f8", "<i8", "<u4", "<u2", "|b1"))
_CODES = {F8: "d", I8: "q", U4: "I", U2: "H", BOOL: "?"}


class Encoder(FlightLog):
    """A flight log on a :class:`Sink`.

    Numbers are recorded in the type that they come in. What cannot be recorded is counted and told once, since
    a controller must not fail because of its log.
    """

    def __init__(self, sink: Sink, joint_names: Sequence[str], command: Mapping[str, str] | None = None):
        """``command`` has the unit of each number of the policy's command; without it, it is a velocity."""
        self._command = _VELOCITY if command is None else {f"{COMMAND}{name}": unit for name, unit in command.items()}
        self._sink, self._lock = sink, threading.Lock()
        self._zero: int | None = None
        self._last_ns = 0
        self._told: list[LoggedEvent] = []
        self._losing = False
        self.dropped = 0
        """Records that did not find room, or could not be recorded."""
        self._joints = joints = {"joint_names": json.dumps(list(joint_names))}
        self._state = _Stream(STATE, "gaitway/msg/State", _STATE_SCALARS, _STATE_ARRAYS, _STATE_OPTIONAL, joints)
        self._frame = _Stream(FRAME, "gaitway/msg/Frame", _FRAME_SCALARS, _FRAME_ARRAYS, (), joints, text="mode")
        self._policy = self._policy_stream()
        self._modes: dict[str, bytes] = {}
        self._masks: dict[frozenset[str], int] = {frozenset(): 0}

    @property
    def trouble(self) -> str | None:
        """Reason why recording has stopped, such as a full disk; None while all is well."""
        return self._sink.trouble

    @property
    def incomplete(self) -> str | None:
        """Reason why some records are missing, or None. Takes microseconds."""
        if (trouble := self._sink.trouble) is not None:
            return trouble
        return (
            f"{self.dropped} records were not stored: the disk is slow, or they made no sense" if self.dropped else None
        )

    @property
    def recorder_pid(self) -> int | None:
        """Process that writes the file; None if it is this one."""
        return self._sink.pid

    def state(self, signals: Signals) -> None:
        health, stamp = signals.health, float(signals.stamp)
        tick = battery = remote = temperature = lost = None
        corrupt = writers = 0
        if health is not None:
            tick, battery, remote = health.tick, health.battery, health.remote
            temperature, lost = health.motor_temperature, health.motor_lost
            corrupt, writers = health.corrupt, len(health.other_writers)
        present = (
            (health is not None) | (tick is not None) << 1 | (battery is not None) << 2 | (remote is not None) << 3
        )
        buttons = frozenset() if remote is None else remote.buttons
        mask = self._masks.get(buttons)
        if mask is None:
            mask = self._masks.setdefault(buttons, button_bits(buttons))
        left, right = ((0.0, 0.0), (0.0, 0.0)) if remote is None else (remote.left, remote.right)
        scalars = (
            stamp, 0.0 if battery is None else battery, *left, *right, 0 if tick is None else tick, present, corrupt,
            writers, mask,
        )  # fmt: skip
        arrays = (
            signals.joint_pos, signals.joint_vel, signals.orientation, signals.turning, signals.base_lin_vel,
            signals.height_scan, signals.accelerometer, signals.joint_torque, signals.foot_force, temperature, lost,
        )  # fmt: skip
        self._put(self._state, stamp, scalars, arrays)

    def frame(self, time: float, mode: str, targets: Array, stiffness: Array, damping: Array, asked: Array) -> None:
        suffix = self._modes.get(mode)
        if suffix is None:
            suffix = self._modes.setdefault(mode, pack_string(str(mode)))
        self._put(self._frame, time, (time,), (targets, stiffness, damping, asked), suffix)

    def policy(self, step: Decision, late: bool) -> None:
        if not self._policy.sequence:
            self._policy = self._policy_stream(step.estimates)
        arrays = (step.state, step.action, step.targets, *step.estimates.values())
        self._put(self._policy, step.time, (step.time, *step.command, bool(late)), arrays)

    def _policy_stream(self, estimates: Iterable[str] = ()) -> _Stream:
        """Stream of the policy, defined at its first step, since ``estimates`` are its own."""
        arrays = (*_POLICY_ARRAYS, *((name, "by the policy itself") for name in estimates))
        command = ((name, F8, unit) for name, unit in self._command.items())
        scalars = (("time", F8, "robot's clock [s]"), *command, ("late", BOOL, "the step came too late"))
        return _Stream(POLICY, "gaitway/msg/Policy", scalars, arrays, (), self._joints)

    def event(self, time: float, kind: str, text: str) -> None:
        with self._lock:
            self._event(time, kind, text)

    def close(self) -> None:
        streams = {STATE: self._state, FRAME: self._frame, POLICY: self._policy}
        counts = {TOPICS[channel]: stream.sequence for channel, stream in streams.items()}
        self._sink.close({"told": json.dumps(counts | {TOPICS[EVENT]: len(self._told)})}, self._told)

    def _put(self, stream: _Stream, time: float, scalars: tuple, arrays: tuple, suffix: bytes = b"") -> None:
        with self._lock:
            try:
                payload = stream.encode(scalars, arrays, suffix)
                if payload is None:
                    self._define(stream, time, arrays)
                    payload = stream.encode(scalars, arrays, suffix)
                    assert payload is not None
                log_time = self._ns(time)
                taken = self._sink.write(stream.channel, log_time, stream.sequence, payload, False)
                why = "the recorder is behind, records are lost here"
            except (FlightError, ValueError, TypeError, AttributeError, struct.error) as error:
                taken, why = False, f"not recorded: {error}"
            stream.sequence += 1
            if not taken:
                self.dropped += 1
                if not self._losing:
                    self._event(time, "drop", why)
            self._losing = not taken

    def _define(self, stream: _Stream, time: float, arrays: tuple) -> None:
        layout = stream.adapt(arrays)
        metadata = {**stream.metadata, "clock_zero_ns": str(self._clock_zero(time))}
        self._sink.define(stream.channel, TOPICS[stream.channel], layout.name, layout.schema, metadata)

    def _event(self, time: float, kind: str, text: str) -> None:
        zero = self._clock_zero(time)
        if not self._told:
            self._sink.define(EVENT, TOPICS[EVENT], EVENT_SCHEMA_NAME, EVENT_SCHEMA, {"clock_zero_ns": str(zero)})
        log_time = self._ns(time)
        event = LoggedEvent(log_time, len(self._told), pack_event(log_time, str(kind), str(text)), zero)
        self._told.append(event)
        self._sink.write(EVENT, log_time, event.sequence, event.payload, True)

    def _clock_zero(self, time: float) -> int:
        """Nanoseconds from the Unix epoch to zero of the robot's clock: what is told first happens now."""
        if self._zero is None:
            self._zero = max(0, wall.time_ns() - (round(time * 1e9) if math.isfinite(time) else 0))
        return self._zero

    def _ns(self, time: float) -> int:
        if math.isfinite(time):
            self._last_ns = max(0, self._clock_zero(time) + round(time * 1e9))
        return self._last_ns


class _Part(NamedTuple):
    """Encoding of one array in a message."""

    pad: bytes
    """Padding between the field before it and itself."""
    dtype: np.dtype
    shape: tuple[int, ...]
    nothing: bytes
    """Bytes in place of an absent array."""
    bit: int
    """Bit of an optional field in ``present``; 0 for others."""


class _Stream:
    """The messages of one channel. Joining bytes is a third of the work of writing into an array of numpy's."""

    def __init__(
        self,
        channel: int,
        name: str,
        scalars: tuple[tuple[str, np.dtype, str], ...],
        arrays: tuple[tuple[str, str], ...],
        optional: tuple[str, ...],
        metadata: Mapping[str, str],
        text: str | None = None,
    ):
        self.channel, self.metadata, self.sequence = channel, metadata, 0
        self._name, self._arrays, self._optional, self._text = name, arrays, optional, text
        self._scalars = tuple(Field(name, dtype, None, about) for name, dtype, about in scalars)
        self._head = bytearray(HEADER + bytes(MessageType(name, self._scalars).dtype.itemsize))
        self._pack = struct.Struct("<" + "".join(_CODES[field.dtype] for field in self._scalars)).pack_into
        self._bits = [1 << optional.index(name) if name in optional else 0 for name, _ in arrays]
        self._known: list[Field | None] = [None] * len(arrays)
        names = [field.name for field in self._scalars]
        self._present = names.index("present") if optional else None
        self._parts: list[_Part | None] = []
        self._tail = b""

    def adapt(self, arrays: Sequence[Any]) -> MessageType:
        """Make room for fields and types like those of ``arrays``, beside what was seen before."""
        for i, ((name, about), value) in enumerate(zip(self._arrays, arrays, strict=True)):
            if value is not None:
                value, known = np.asarray(value), self._known[i]
                self._known[i] = field_of(name, value, about) if known is None else widen(known, value)
            elif not self._bits[i]:
                raise FlightError(f"{name} is missing")
        fields = [field for field in self._known if field is not None]
        layout = MessageType(self._name, (*self._scalars, *fields), self._optional, self._text)
        offsets = layout.dtype.fields
        assert offsets is not None
        end = len(self._head) - len(HEADER)
        self._parts = []
        for field, bit in zip(self._known, self._bits, strict=True):
            if field is None:
                self._parts.append(None)
                continue
            assert field.length is not None
            start, size = offsets[field.name][1], field.length * field.dtype.itemsize
            self._parts.append(_Part(bytes(start - end), field.dtype, (field.length,), bytes(size), bit))
            end = start + size
        self._tail = bytes(-end % 4) if self._text else b""
        return layout

    def encode(self, scalars: tuple, arrays: tuple, suffix: bytes) -> bytes | None:
        """One message; None if :meth:`adapt` has to be called first."""
        if not self._parts:
            return None
        head, present = self._head, 0
        pieces: list[bytes | bytearray] = [head]
        for part, value in zip(self._parts, arrays, strict=True):
            if value is None:
                if part is None:
                    continue
                if not part.bit:
                    return None
                pieces += (part.pad, part.nothing)
                continue
            if part is None:
                return None
            pad, dtype, shape, _, bit = part
            if type(value) is not np.ndarray:
                value = np.asarray(value)
            if value.shape != shape:
                return None
            if value.dtype is not dtype and value.dtype != dtype:
                if np.result_type(value.dtype, dtype) != dtype:
                    return None
                value = value.astype(dtype)
            if pad:
                pieces.append(pad)
            pieces.append(value.tobytes())
            present |= bit
        if self._present is not None:
            scalars = (*scalars[: self._present], scalars[self._present] | present, *scalars[self._present + 1 :])
        self._pack(head, len(HEADER), *scalars)
        if suffix:
            pieces += (self._tail, suffix)
        return b"".join(pieces)


_STATE_SCALARS = (
    ("time", F8, "when the sensors were read, robot's clock [s]"),
    ("battery", F8, "state of charge, of 1"),
    ("left_x", F8, "sticks of the remote, right and up are positive"),
    ("left_y", F8, ""),
    ("right_x", F8, ""),
    ("right_y", F8, ""),
    ("tick", I8, "the robot's own counter"),
    ("present", U4, "which optional fields this message has: HAS_..."),
    ("corrupt", U4, "states dropped since the start because of their checksum"),
    ("other_writers", U4, "others who write commands to this robot"),
    ("buttons", U2, "of the remote: R1 L1 start select R2 L2 F1 F2 A B X Y up right down left, lowest bit first"),
)
_STATE_ARRAYS = (
    ("joint_pos", "[rad]"),
    ("joint_vel", "[rad/s]"),
    ("imu_quat_wxyz", ""),
    ("gyro", "base frame [rad/s]"),
    ("base_lin_vel", "estimate, in a simulation the truth, base frame [m/s]"),
    ("height_scan", "estimate [m]"),
    ("accelerometer", "base frame [m/s^2]"),
    ("joint_torque", "as the drives believe [N m]"),
    ("foot_force", "the sensors' unit"),
    ("motor_temperature", "[degrees C]"),
    ("motor_lost", "the motors' counters of communication failures"),
)
_STATE_OPTIONAL = ("health", "tick", "battery", "remote", *(name for name, _ in _STATE_ARRAYS[4:]))
_FRAME_SCALARS = (("time", F8, "robot's clock [s]"),)
_FRAME_ARRAYS = (
    ("targets", "as sent [rad]"),
    ("stiffness", "kp [N m/rad]"),
    ("damping", "kd [N m s/rad]"),
    ("asked", "targets before they were clamped [rad]"),
)
_VELOCITY = {"command_x": "[m/s]", "command_y": "[m/s]", "command_yaw": "[rad/s]"}
"""Fields of a velocity command, and their units."""
_POLICY_ARRAYS = (
    ("memory", "before the step: started, last action, history"),
    ("action", "as put out, the contract's joint order"),
    ("targets", "joint position targets [rad]"),
)
