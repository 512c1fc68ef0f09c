"""Wire format of protocol buffers: numbers and bytes by field number, without a schema or a library.

Source: protobuf.dev/programming-guides/encoding. :mod:`.messages` knows the fields of each message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from gaitway_files.errors import UserError

VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
"""Types of a field on the wire."""
Value = int | memoryview


def fields(message: bytes | memoryview) -> Iterator[tuple[int, Value]]:
    """Number and value of each field in order: an integer of a varint, else the bytes. UserError if cut off."""
    data, at = memoryview(message), 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == BYTES:
            length, at = _varint(data, at)
        elif kind in (EIGHT_BYTES, FOUR_BYTES):
            length = 8 if kind == EIGHT_BYTES else 4
        else:
            raise UserError(f"a protobuf message has a field of type {kind}: types 0, 1, 2 and 5 are read")
        if at + length > len(data):
            raise UserError("a protobuf message is cut off: its last field is longer than what is left")
        yield key >> 3, data[at : at + length]
        at += length


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """An integer of up to 64 bits and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise UserError("a protobuf message is cut off within a number")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 2**64 - 1, at
    raise UserError("a protobuf message has a number of more than 64 bits")


def integers(value: Value) -> list[int]:
    """A repeated field of integers: packed, or one of them alone."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number)
    return found


def number(value: Value) -> float:
    """A double."""
    if isinstance(value, int) or len(value) != 8:
        raise UserError("a protobuf message has no double where one belongs")
    return float(struct.unpack("<d", value)[0])


def whole(value: Value) -> int:
    if not isinstance(value, int):
        raise UserError("a protobuf message has bytes where an integer belongs")
    return value


def raw(value: Value) -> memoryview:
    if isinstance(value, int):
        raise UserError("a protobuf message has an integer where bytes belong")
    return value


def text(value: Value) -> str:
    """A string in UTF-8."""
    try:
        return str(raw(value), "utf-8")
    except UnicodeDecodeError:
        raise UserError("a protobuf message has a text that is not UTF-8") from None


# ---- writing ---------------------------------------------------------------------------------------------------------


def integer_field(field: int, value: int) -> bytes:
    """A varint: of an integer that is not negative, or an enum."""
    return _written(field << 3 | VARINT) + _written(value)


def bytes_field(field: int, value: bytes | str | Iterable[bytes]) -> bytes:
    """Bytes, a string, or a message made of fields."""
    if isinstance(value, str):
        value = value.encode()
    elif not isinstance(value, bytes):
        value = b"".join(value)
    return _written(field << 3 | BYTES) + _written(len(value)) + value


def double_field(field: int, value: float) -> bytes:
    return _written(field << 3 | EIGHT_BYTES) + struct.pack("<d", value)


def packed_field(field: int, values: Iterable[int]) -> bytes:
    """Repeated integers that are not negative."""
    return bytes_field(field, b"".join(map(_written, values)))


def _written(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)
