"""Describing messages as OMG IDL does, and the CDR encoding of any of them; numpy and the standard library only.

One description serves the fast fixed layouts, the general codec below and the DDS types: see
:mod:`gaitway_onboard.wire.declarations`.

CDR here is XCDR1, little endian (OMG DDS-XTypes 1.3, 7.4): each primitive is aligned to its size, counted from the end
of the 4-byte encapsulation header. That is no C struct: a nested struct has no alignment of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gaitway_files.errors import UserError

HEADER = b"\x00\x01\x00\x00"
"""Encapsulation: plain CDR, little endian, no options."""

PRIMITIVES = {
    "octet": "u1", "boolean": "u1", "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4", "int64": "<i8",
    "float32": "<f4", "float64": "<f8",
}  # fmt: skip
"""IDL's names and what numpy calls them."""


class WireError(UserError):
    """Bytes that are not the message they should be."""


@dataclass(frozen=True)
class Array:
    """``length`` items, always."""

    item: Kind
    length: int


@dataclass(frozen=True)
class Sequence:
    """Any number of items, their count in front."""

    item: Kind


@dataclass(frozen=True)
class Struct:
    """A message or a part of one."""

    name: str
    """Name in the IDL, such as "unitree_go::msg::dds_::LowCmd_"."""
    fields: tuple[tuple[str, Kind], ...]


Kind = str | Array | Sequence | Struct
"""A name in :data:`PRIMITIVES`, "string", or something made of these."""


def struct_of(name: str, /, **fields: Kind) -> Struct:
    return Struct(name, tuple(fields.items()))


def encode(kind: Struct, values: Mapping[str, Any]) -> bytes:
    """The message with these fields, nested structs as mappings too; numpy arrays and lists both do as sequences.

    Fields that are left out are zero, empty or False. Raises :class:`WireError` on a field that the type has not.
    """
    writer = _Writer()
    writer.put(kind, values)
    return HEADER + bytes(writer.data) + bytes(-len(writer.data) % 4)


def decode(kind: Struct, payload: bytes | bytearray | memoryview) -> dict[str, Any]:
    """Fields by name: nested structs as dicts, numbers as numpy arrays (octets as bytes), other items as lists.

    Raises :class:`WireError` when the payload is truncated or not of this encoding.
    """
    check_header(payload, kind.name)
    try:
        return _Reader(payload).get(kind)
    except (struct.error, ValueError, IndexError) as error:
        raise WireError(f"{kind.name}: {len(payload)} bytes are no such message ({error})") from None


def check_header(payload: bytes | bytearray | memoryview, name: str) -> None:
    if payload[:2] != HEADER[:2]:  # the rest of the header says how much padding there is at the end
        raise WireError(f"{name}: encapsulation {bytes(payload[:4]).hex(' ')} is not little-endian CDR")


def zero(kind: Kind) -> Any:
    """Result of :func:`decode` for an empty message."""
    match kind:
        case Struct():
            return {name: zero(field) for name, field in kind.fields}
        case Array(item, length):
            return [zero(item) for _ in range(length)]
        case Sequence():
            return []
        case "string":
            return ""
        case "boolean":
            return False
        case _:
            return 0


class _Writer:
    def __init__(self) -> None:
        self.data = bytearray()

    def put(self, kind: Kind, value: Any) -> None:
        match kind:
            case Struct():
                if unknown := set(value) - {name for name, _ in kind.fields}:
                    raise WireError(f"{kind.name} has no field {', '.join(sorted(unknown))}")
                for name, field in kind.fields:
                    self.put(field, value.get(name, zero(field)))
            case Array(item, length):
                if len(value) != length:
                    raise WireError(f"an array of {length} was given {len(value)} items")
                self.put_items(item, value)
            case Sequence(item):
                self.put("uint32", len(value))
                self.put_items(item, value)
            case "string":
                text = value.encode() + b"\0"
                self.put("uint32", len(text))
                self.data += text
            case str():
                self.put_items(kind, (value,))

    def put_items(self, item: Kind, values: Any) -> None:
        if isinstance(item, str) and item in PRIMITIVES:
            if isinstance(values, bytes | bytearray | memoryview):
                values = np.frombuffer(values, "u1")
            items = np.asarray(values, PRIMITIVES[item])
            if len(items):
                self.data += bytes(-len(self.data) % items.itemsize) + items.tobytes()
        else:
            for value in values:
                self.put(item, value)


class _Reader:
    def __init__(self, payload: bytes | bytearray | memoryview):
        self.data, self.at = memoryview(payload)[4:], 0

    def get(self, kind: Kind) -> Any:
        match kind:
            case Struct():
                return {name: self.get(field) for name, field in kind.fields}
            case Array(item, length):
                return self.items(item, length)
            case Sequence(item):
                return self.items(item, self.get("uint32"))
            case "string":
                return self.text()
            case "boolean":
                return bool(self.items("octet", 1)[0])
            case str():
                return self.numbers(kind, 1)[0].item()

    def text(self) -> str:
        length = self.get("uint32")
        if not 1 <= length <= len(self.data) - self.at:
            raise UserError(f"a string of {length} bytes does not fit")
        text = bytes(self.data[self.at : self.at + length - 1])
        self.at += length
        return text.decode("utf-8", "replace")

    def items(self, item: Kind, count: int) -> Any:
        if count > len(self.data) - self.at:
            raise UserError(f"{count} items do not fit")
        if item == "octet":
            return self.numbers(item, count).tobytes()
        if isinstance(item, str) and item in PRIMITIVES:
            return self.numbers(item, count)
        return [self.get(item) for _ in range(count)]

    def numbers(self, kind: str, count: int) -> np.ndarray:
        dtype = np.dtype(PRIMITIVES[kind])
        start = self.at + (-self.at % dtype.itemsize if count else 0)
        self.at = start + count * dtype.itemsize
        return np.frombuffer(self.data, dtype, count, start)
