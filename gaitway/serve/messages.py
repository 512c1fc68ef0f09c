"""Messages of training and sampling in Tinker's protobuf schema, version 0.38 of its client.

Field numbers are those of ``tinker_public.proto``. Arrays travel as little-endian bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from gaitway_files.errors import UserError
from numpy.typing import NDArray

from . import protobuf as wire

Array = NDArray[np.generic]
Settings = Mapping[str, float | str]

TYPES: dict[int, np.dtype[np.generic]] = {1: np.dtype("<f4"), 2: np.dtype("<i8"), 3: np.dtype("<i4")}
"""Types of a tensor by their number in ``DType``."""
FLOAT32 = 1
MOST_CELLS = 2**24
"""Most numbers in the tensors of a request, those that a sparse one leaves out included."""


@dataclass(frozen=True)
class Datum:
    """One sequence to learn from."""

    tokens: Array
    """Input tokens, shape (N,)."""
    inputs: dict[str, Array]
    """Tensors of the loss by name; position i belongs to the token after ``tokens[: i + 1]``."""


@dataclass
class TrainingRequest:
    """A request for losses and, unless ``forward_only``, their gradients."""

    model: str = ""
    seq: int = 0
    loss: str = ""
    forward_only: bool = False
    settings: dict[str, float | str] = field(default_factory=dict)
    """Settings of the loss, such as clip thresholds."""
    data: list[Datum] = field(default_factory=list)


def read_training_request(message: bytes) -> TrainingRequest:
    """``ForwardBackwardRequest``. Raises UserError for one that is malformed, or has anything but text."""
    found = TrainingRequest()
    older: dict[str, float | str] = {}
    room = MOST_CELLS
    for number, value in wire.fields(message):
        if number == 1:
            found.model = wire.text(value)
        elif number == 2:
            found.seq = wire.whole(value)
        elif number == 3:
            datum = _datum(wire.raw(value), len(found.data), room)
            room -= len(datum.tokens) + sum(tensor.size for tensor in datum.inputs.values())
            found.data.append(datum)
        elif number == 4:
            found.loss = wire.text(value)
        elif number == 5:
            key, entry = _entry(value)
            older[key] = wire.number(entry)
        elif number == 6:
            found.forward_only = bool(wire.whole(value))
        elif number == 7:
            key, entry = _entry(value)
            ((kind, setting),) = list(wire.fields(wire.raw(entry))) or [(1, memoryview(bytes(8)))]
            found.settings[key] = wire.number(setting) if kind == 1 else wire.text(setting)
    found.settings = found.settings or older
    return found


def _entry(value: wire.Value) -> tuple[str, wire.Value]:
    """Key and value of a map's entry, which leaves out what is empty or 0."""
    parts = dict(wire.fields(wire.raw(value)))
    return wire.text(parts.get(1, memoryview(b""))), parts.get(2, memoryview(bytes(8)))


def _datum(message: memoryview, row: int, room: int) -> Datum:
    """A datum, whose sparse tensors have at most ``room`` cells each."""
    parts: list[Array] = []
    inputs: dict[str, Array] = {}
    for number, value in wire.fields(message):
        if number == 1:
            for kind, chunk in wire.fields(wire.raw(value)):
                if kind != 1:
                    raise UserError(f"datum {row} has an image or audio in model_input: this model reads text only")
                (tokens,) = [wire.raw(v) for n, v in wire.fields(wire.raw(chunk)) if n == 1] or [memoryview(b"")]
                parts.append(_array(tokens, TYPES[3], f"datum {row}, model_input").astype(np.int64))
        elif number == 2:
            name, entry = _entry(value)
            inputs[name] = _tensor(wire.raw(entry), f"datum {row}, {name}", room)
    return Datum(np.concatenate(parts) if parts else np.empty(0, np.int64), inputs)


def _tensor(message: memoryview, what: str, room: int) -> Array:
    """A tensor in its shape; without one, as a list. A sparse one is filled with zeros."""
    kind, shape = TYPES[FLOAT32], list[int]()
    dense, sparse = memoryview(b""), None
    for number, value in wire.fields(message):
        if number == 1:
            dense = wire.raw(value)
        elif number == 2:
            sparse = {n: wire.raw(v) for n, v in wire.fields(wire.raw(value))}
        elif number == 3:
            if wire.whole(value) not in TYPES:
                raise UserError(f"{what}: dtype {wire.whole(value)} is unknown; float32 and int64 are read")
            kind = TYPES[wire.whole(value)]
        elif number == 4:
            shape += wire.integers(value)
    if sparse is None:
        array = _array(dense, kind, what)
        shape = shape or [len(array)]
        if int(np.prod(shape, dtype=object)) != len(array):
            raise UserError(f"{what}: shape {shape} does not fit {len(array)} numbers")
        return array.reshape(shape)
    if len(shape) != 2 or shape[0] * shape[1] > room:
        raise UserError(
            f"{what}: a sparse tensor of shape {shape}; two dimensions and {MOST_CELLS} cells in a request are possible"
        )
    values, columns = _array(sparse.get(1), kind, what), _array(sparse.get(3), TYPES[2], what)
    ends = _array(sparse.get(2), TYPES[2], what).astype(np.int64)
    counts = np.diff(ends)
    rows = len(ends) == shape[0] + 1 and bool((counts >= 0).all()) and int(counts.sum()) == len(values) == len(columns)
    if not rows or (len(columns) and not 0 <= int(columns.min()) <= int(columns.max()) < shape[1]):
        raise UserError(f"{what}: its CSR indices do not fit its shape {shape}")
    filled = np.zeros(shape, kind)
    filled[np.repeat(np.arange(shape[0]), counts), columns] = values
    return filled


def _array(data: memoryview | None, kind: np.dtype[np.generic], what: str) -> Array:
    data = memoryview(b"") if data is None else data
    if len(data) % kind.itemsize:
        raise UserError(f"{what}: {len(data)} bytes are no whole number of {kind.name}")
    return np.frombuffer(data, kind)


# ---- answers ---------------------------------------------------------------------------------------------------------


def losses_message(outputs: Sequence[Mapping[str, Array]], metrics: Mapping[str, float]) -> bytes:
    """``ForwardBackwardOutput``: float32 tensors of each datum by name, and metrics.

    Each datum is a record of its own, so that their shapes may differ.
    """
    return b"".join(
        [
            wire.bytes_field(1, "ArrayRecord"),
            *(wire.bytes_field(2, _record(tensors)) for tensors in outputs),
            *(
                wire.bytes_field(3, [wire.bytes_field(1, name), wire.double_field(2, value)])
                for name, value in metrics.items()
            ),
        ]
    )


def _record(tensors: Mapping[str, Array]) -> list[bytes]:
    def batched(array: Array) -> list[bytes]:
        data = np.ascontiguousarray(array, "<f4").tobytes()
        offsets = np.array([0, len(data)], "<i8").tobytes()
        return [
            wire.bytes_field(1, data),
            wire.bytes_field(2, offsets),
            wire.integer_field(3, FLOAT32),
            wire.packed_field(4, array.shape[1:]),
        ]

    entries = [
        wire.bytes_field(2, [wire.bytes_field(1, name), wire.bytes_field(2, batched(array))])
        for name, array in tensors.items()
    ]
    return [*entries, wire.integer_field(3, 1)]


@dataclass(frozen=True)
class Likeliest:
    """The K likeliest tokens of positions and their log-probabilities, (N, K) each; NaN rows were not computed."""

    tokens: Array
    log_probs: Array

    def message(self) -> list[bytes]:
        """``TopkLogprobs``, whose empty cells have token 0 and log-probability -99999."""
        empty = np.isnan(self.log_probs)
        return [
            wire.bytes_field(1, np.where(empty, 0, self.tokens).astype("<i4").tobytes()),
            wire.bytes_field(2, np.where(empty, -99999.0, self.log_probs).astype("<f4").tobytes()),
            wire.integer_field(3, self.tokens.shape[1]),
            wire.integer_field(4, self.tokens.shape[0]),
        ]


@dataclass(frozen=True)
class Sampled:
    """One answer: tokens and log-probabilities (N,), and whether a stop ended it rather than its length."""

    tokens: Sequence[int]
    log_probs: Sequence[float]
    stopped: bool
    likeliest: Likeliest | None = None


def samples_message(
    samples: Sequence[Sampled], prompt: Array | None = None, prompt_likeliest: Likeliest | None = None
) -> bytes:
    """``SampleResponse``; ``prompt`` are the log-probabilities (L,) of the prompt's tokens, NaN where not computed."""

    def sequence(sample: Sampled) -> list[bytes]:
        said = [
            wire.integer_field(1, 0 if sample.stopped else 1),
            wire.bytes_field(2, np.array(sample.tokens, "<i4").tobytes()),
            wire.bytes_field(3, np.array(sample.log_probs, "<f4").tobytes()),
        ]
        return said + ([] if sample.likeliest is None else [wire.bytes_field(4, sample.likeliest.message())])

    found = [wire.bytes_field(1, sequence(sample)) for sample in samples]
    if prompt is not None:
        found.append(wire.bytes_field(2, np.asarray(prompt, "<f4").tobytes()))
    if prompt_likeliest is not None:
        found.append(wire.bytes_field(3, prompt_likeliest.message()))
    return b"".join(found)
