"""Messages of fixed size without decoding: every field is a numpy view into one preallocated payload.

Filling a command frame is a handful of array assignments; reading a state is one copy of its bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .idl import HEADER, PRIMITIVES, Array, Kind, Sequence, Struct, WireError, check_header

Payload = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Field:
    """Places of the numbers of one field: ``motor_cmd.q`` of a message with 20 motors is (20,)."""

    dtype: np.dtype
    offsets: np.ndarray
    """Offset of each number in the payload, its header included."""
    image: np.ndarray
    """Offset of each number in the C struct of the same message."""


class Layout:
    """Offsets of a fixed-size message in CDR and as the C struct that a compiler would make of it."""

    def __init__(self, kind: Struct):
        self.name = kind.name
        cdr, end = _place(kind, "", 0, as_c=False)
        image, self.image_size = _place(kind, "", 0, as_c=True)
        self.fields = {
            path: Field(np.dtype(PRIMITIVES[code]), np.array(offsets) + len(HEADER), np.array(image[path][1]))
            for path, (code, offsets) in cdr.items()
        }
        self.unpadded = len(HEADER) + end
        self.size = self.unpadded + -self.unpadded % 4
        """Bytes of a payload, its header included, padded to words as DDS does."""

    @cached_property
    def image_index(self) -> np.ndarray:
        """Byte of the payload that belongs at each byte of the C struct; 0, which holds a zero, for its padding."""
        index = np.zeros(self.image_size, np.intp)
        for field in self.fields.values():
            for byte in range(field.dtype.itemsize):
                index[field.image + byte] = field.offsets + byte
        return index

    def new(self) -> Message:
        """A message of zeros."""
        return Message(self)

    def read(self, payload: Payload) -> Message:
        """A copy of ``payload``; raises :class:`WireError` if it is something else."""
        message = Message(self)
        message.load(payload)
        return message


class Message:
    """One payload and its fields by IDL path: ``message["motor_cmd.q"][:12] = targets``.

    A field is a view, of shape () if there is one of it; take it once, outside the loop, and it stays valid: also
    :meth:`load` writes through it. Only fields that CDR does not space evenly, ``motor_cmd.mode`` and
    ``motor_state.mode``, are read as copies; assign to those through the message.
    """

    def __init__(self, layout: Layout):
        self.layout = layout
        self.payload = bytearray(layout.size)
        """What goes over the wire, header included."""
        self.payload[: len(HEADER)] = HEADER
        self.bytes = np.frombuffer(self.payload, np.uint8)
        """The payload as an array."""
        self._views: dict[str, np.ndarray] = {}
        for path, field in layout.fields.items():
            strides = _strides(field.offsets)
            if strides is not None:
                start = int(field.offsets.flat[0])
                view = np.ndarray(field.offsets.shape, field.dtype, self.payload, start, strides)
                self._views[path] = view

    def __getitem__(self, path: str) -> np.ndarray:
        view = self._views.get(path)
        return view if view is not None else self.bytes[self._field(path).offsets]

    def __setitem__(self, path: str, value: ArrayLike) -> None:
        view = self._views.get(path)
        if view is not None:
            view[...] = value
        else:
            self.bytes[self._field(path).offsets] = value

    def load(self, payload: Payload) -> None:
        """Become a copy of ``payload``; raises :class:`WireError`, and stays as it was, if that is something else."""
        layout = self.layout
        if not layout.unpadded <= len(payload) <= layout.size:
            raise WireError(f"{layout.name}: {len(payload)} bytes are no such message, which has {layout.size}")
        check_header(payload, layout.name)
        self.payload[len(HEADER) : len(payload)] = payload[len(HEADER) :]

    def _field(self, path: str) -> Field:
        try:
            return self.layout.fields[path]
        except KeyError:
            raise WireError(f"{self.layout.name} has no field {path!r}") from None


@lru_cache
def layout_of(kind: Struct) -> Layout:
    """The layout of a type in :mod:`gaitway_onboard.wire.declarations`, made once."""
    return Layout(kind)


def _strides(offsets: np.ndarray) -> tuple[int, ...] | None:
    """Steps in bytes along each axis, or None if they are not even."""
    steps = [np.diff(offsets, axis=axis) for axis in range(offsets.ndim)]
    if any(step.size and (step != step.flat[0]).any() for step in steps):
        return None
    return tuple(int(step.flat[0]) if step.size else 0 for step in steps)


_Offsets = dict[str, tuple[str, Any]]
"""IDL type and nested list of offsets, by path."""


def _place(kind: Kind, path: str, at: int, as_c: bool) -> tuple[_Offsets, int]:
    """Offsets of everything in ``kind`` when it begins at ``at``, and where it ends."""
    match kind:
        case Struct():
            alignment = _alignment(kind) if as_c else 1
            at += -at % alignment
            found: _Offsets = {}
            for name, field in kind.fields:
                inner, at = _place(field, f"{path}.{name}" if path else name, at, as_c)
                found |= inner
            return found, at + -at % alignment
        case Array(item, length):
            items = []
            for _ in range(length):
                inner, at = _place(item, path, at, as_c)
                items.append(inner)
            return {key: (code, [each[key][1] for each in items]) for key, (code, _) in items[0].items()}, at
        case Sequence() | "string":
            raise WireError(f"{path} has no fixed size: use gaitway_onboard.wire.idl")
        case str():
            size = np.dtype(PRIMITIVES[kind]).itemsize
            start = at + -at % size
            return {path: (kind, start)}, start + size


def _alignment(kind: Kind) -> int:
    match kind:
        case Struct():
            return max(_alignment(field) for _, field in kind.fields)
        case Array(item, _) | Sequence(item):
            return _alignment(item)
        case str():
            return np.dtype(PRIMITIVES[kind]).itemsize
