"""The same declarations as types of cyclonedds, which DDS announces to its peers. Needs the ``robot`` extra.

Octets are IDL's ``byte``, never ``uint8``: Cyclone 0.10.x, on which Unitree's software is built, maps an octet to
TK_BYTE. Given the other it asks for the unknown type, and crashes on the answer: a peer that merely has the same topic
is killed, on a robot perhaps its own controller.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from cyclonedds.idl import IdlStruct, make_idl_struct, types
from cyclonedds.idl.annotations import autoid, final

from .declarations import MESSAGES
from .idl import PRIMITIVES, Array, Kind, Sequence, Struct

_PRIMITIVES: dict[str, Any] = {
    **{name: getattr(types, name) for name in PRIMITIVES if hasattr(types, name)},
    "octet": types.byte,
    "boolean": bool,
    "string": str,
}


@lru_cache
def idl_struct(kind: Struct) -> type[IdlStruct]:
    """The class of cyclonedds for a declaration: final, members numbered in order."""
    fields = {name: _annotation(field) for name, field in kind.fields}
    made = make_idl_struct(kind.name.rpartition("::")[2], kind.name.replace("::", "."), fields)
    return autoid("sequential")(final(made))


def _annotation(kind: Kind) -> Any:
    array: Any = types.array  # generics to Python, but not to mypy
    sequence: Any = types.sequence
    match kind:
        case Struct():
            return idl_struct(kind)
        case Array(item, length):
            return array[_annotation(item), length]
        case Sequence(item):
            return sequence[_annotation(item)]
        case str():
            return _PRIMITIVES[kind]


TYPES: dict[str, type[IdlStruct]] = {name: idl_struct(kind) for name, kind in MESSAGES.items()}
"""Types by name on the wire."""
