"""Random values of any declared message, and the same as objects of cyclonedds."""

from typing import Any

import numpy as np
from gaitway_onboard.wire.idl import PRIMITIVES, Array, Kind, Sequence, Struct
from gaitway_onboard.wire.messages import idl_struct


def random_value(kind: Kind, rng: np.random.Generator) -> Any:
    """Plain Python: dicts, lists, numbers, text. Sequences are of every length from 0."""
    match kind:
        case Struct():
            return {name: random_value(field, rng) for name, field in kind.fields}
        case Array(item, length):
            return [random_value(item, rng) for _ in range(length)]
        case Sequence(item):
            return [random_value(item, rng) for _ in range(rng.integers(0, 5))]
        case "string":
            return "".join(rng.choice(list("abcé/_"), rng.integers(0, 9)))
        case "boolean":
            return bool(rng.integers(2))
        case "float32" | "float64":
            return float(np.float32(rng.normal()))
    integers = np.iinfo(PRIMITIVES[str(kind)])
    return int(rng.integers(integers.min, integers.max, endpoint=True))


def dds_object(kind: Kind, value: Any) -> Any:
    match kind:
        case Struct():
            return idl_struct(kind)(**{name: dds_object(field, value[name]) for name, field in kind.fields})
        case Array(item, _) | Sequence(item):
            return [dds_object(item, each) for each in value]
    return value


def dds_bytes(kind: Struct, value: Any) -> bytes:
    """Bytes that cyclonedds puts on the wire for it, padded to words as it does when it writes."""
    data = dds_object(kind, value).serialize()
    return data.ljust(len(data) + -len(data) % 4, b"\0")
