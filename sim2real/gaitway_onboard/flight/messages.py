"""The recorder's messages: fields of fixed size, as CDR that numpy reads and writes as one structure.

Each message type is described by a ROS 2 message definition, so that any MCAP tool can read it, and a definition has
all that is needed to read its messages back: the layout is computed from the text. A field that not every message has
is marked in the message's ``present``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from gaitway_files.errors import UserError
from numpy.typing import NDArray

from ..wire.declarations import LOG
from ..wire.idl import HEADER, decode, encode

ENCODING = "cdr"
SCHEMA_ENCODING = "ros2msg"
ROS_TYPES = {
    "bool": "|b1", "int8": "|i1", "uint8": "|u1", "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4",
    "int64": "<i8", "uint64": "<u8", "float32": "<f4", "float64": "<f8",
}  # fmt: skip
NAMES = {np.dtype(code): name for name, code in ROS_TYPES.items()}
LEVELS = {"trip": 4, "drop": 4, "stop": 3, "clamp": 3}
"""Levels of events in the log panel: error, warning; 2, information, for all others."""

EVENT_SCHEMA_NAME = "foxglove_msgs/msg/Log"
EVENT_SCHEMA = """\
# Gaitway: name is the kind of the event. Of the message types that Foxglove's log panel shows.
uint8 UNKNOWN=0
uint8 DEBUG=1
uint8 INFO=2
uint8 WARNING=3
uint8 ERROR=4
uint8 FATAL=5
builtin_interfaces/Time timestamp
uint8 level
string message
string name
string file
uint32 line
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""


class FlightError(UserError):
    """A flight that cannot be recorded or read, with the reason and the fix."""


@dataclass(frozen=True)
class Field:
    """One field of a message; ``length`` None is a scalar."""

    name: str
    dtype: np.dtype
    length: int | None = None
    about: str = ""

    @property
    def declaration(self) -> str:
        return NAMES[self.dtype] + ("" if self.length is None else f"[{self.length}]") + f" {self.name}"


@dataclass(frozen=True)
class MessageType:
    """A message type: its fields in order. ``text`` says that a string, the mode, ends each message."""

    name: str
    fields: tuple[Field, ...]
    optional: tuple[str, ...] = ()
    """Fields that not every message has; the bit of each in ``present`` is its place here."""
    text: str | None = None

    @property
    def schema(self) -> str:
        """The ROS 2 message definition."""
        lines = [f"uint32 HAS_{name.upper()}={1 << bit}" for bit, name in enumerate(self.optional)]
        lines += [field.declaration + (f"  # {field.about}" if field.about else "") for field in self.fields]
        return "\n".join([*lines, *([f"string {self.text}"] if self.text else [])]) + "\n"

    @property
    def dtype(self) -> np.dtype:
        """The fixed part of a message, after its CDR header: every field on a multiple of its element's size."""
        offset, offsets = 0, []
        for field in self.fields:
            offset += -offset % field.dtype.itemsize
            offsets.append(offset)
            offset += field.dtype.itemsize * (1 if field.length is None else field.length)
        formats = [field.dtype if field.length is None else (field.dtype, (field.length,)) for field in self.fields]
        names = [field.name for field in self.fields]
        return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": offset})

    @classmethod
    def parse(cls, name: str, schema: str) -> MessageType:
        """The layout that a definition describes; raises :class:`FlightError` if it is none of ours."""
        fields, optional, text = [], [], None
        for line in schema.splitlines():
            line = line.partition("#")[0].strip()
            if found := re.fullmatch(r"uint32 HAS_(\w+)=\d+", line):
                optional.append(found[1].lower())
            elif found := re.fullmatch(r"string (\w+)", line):
                text = found[1]
            elif (found := re.fullmatch(r"(\w+)(?:\[(\d+)\])? (\w+)", line)) and found[1] in ROS_TYPES and not text:
                fields.append(Field(found[3], np.dtype(ROS_TYPES[found[1]]), int(found[2]) if found[2] else None))
            elif line:
                raise FlightError(f"{name}: cannot read {line!r} of its definition: written by another program?")
        return cls(name, tuple(fields), tuple(optional), text)


def field_of(name: str, value: NDArray, about: str = "") -> Field:
    """A field for arrays like ``value``."""
    dtype = np.dtype(value.dtype.newbyteorder("<").str)  # numpy's own instance, which can be compared by identity
    if value.ndim != 1 or dtype not in NAMES:
        raise FlightError(
            f"{name} of shape {value.shape} and type {value.dtype} cannot be recorded: give numbers, (n,)"
        )
    return Field(name, dtype, len(value), about)


def widen(field: Field, value: NDArray) -> Field:
    """``field``, of a type that also holds the numbers of ``value``."""
    new = field_of(field.name, value, field.about)
    if new.length != field.length:
        raise FlightError(f"{field.name} has {new.length} numbers; before, it had {field.length}")
    return Field(field.name, np.dtype(np.result_type(field.dtype, new.dtype).str), field.length, field.about)


def pack_string(text: str) -> bytes:
    data = text.encode() + b"\x00"
    return len(data).to_bytes(4, "little") + data


def pack_event(time_ns: int, kind: str, text: str) -> bytes:
    """A message of :data:`EVENT_SCHEMA`; ``time_ns`` is since the Unix epoch."""
    timestamp = {"sec": time_ns // 1_000_000_000, "nanosec": time_ns % 1_000_000_000}
    return encode(LOG, {"timestamp": timestamp, "level": LEVELS.get(kind, 2), "message": text, "name": kind})


def unpack_event(payload: bytes) -> tuple[str, str]:
    """Kind and text of a message of :data:`EVENT_SCHEMA`."""
    message = decode(LOG, payload)
    return message["name"], message["message"]


def unpack_string(payload: bytes, offset: int) -> str:
    """The string that starts at the next multiple of 4 after ``offset`` of the body."""
    start = len(HEADER) + offset + -offset % 4
    length = int.from_bytes(payload[start : start + 4], "little")
    return payload[start + 4 : start + 3 + length].decode("utf-8", "replace")
