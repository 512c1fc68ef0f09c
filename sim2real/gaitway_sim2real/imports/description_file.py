"""Descriptions in files: YAML to :class:`Description` and back."""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from gaitway_files.reading import SENTENCE, VALUE, check_texts, printable

from .description import MOST, TWIST, Action, Clock, Command, Description, Held, History, Network, Term, per_name
from .errors import PolicyImportError

LARGEST = 1e39
"""Largest number that is read, as of a contract."""
PARTS: dict[str, type] = {"held": Held, "history": History, "clock": Clock, "network": Network}


def description_from(data: Any, where: str, **known: Any) -> Description:
    """The description in ``data``, the content of a YAML file; ``where`` names it in messages.

    Numbers of joints may be one for all, a list in the order of ``joints``, or a mapping of patterns. The action's
    joints are all unless they are named, its offset the default pose. ``known`` fills in what the file leaves out.
    """
    data = {**known, **_mapping(data, where, Description)}
    check_texts(data, where, SENTENCE)
    for key in ("joints", "observation", "control_dt", "command"):
        if key not in data:
            raise PolicyImportError(f"{where} has no {key}; it needs joints, observation, control_dt and command")
    joints = _names(data["joints"], f"{where}: joints")
    values = dict(data, joints=joints)
    for key in ("default_joint_pos", "stiffness", "damping", "effort_limit", "armature"):
        if data.get(key) is not None:
            values[key] = _floats(per_name(data[key], joints, f"{where}: {key}"), f"{where}: {key}")
    if missing := [key for key in ("default_joint_pos", "stiffness", "damping") if values.get(key) is None]:
        raise PolicyImportError(f"{where} has no {missing[0]}: a number, a list, or a mapping of patterns of joints")
    pose = dict(zip(joints, values["default_joint_pos"], strict=True))
    values["action"] = _action(data.get("action") or {}, joints, pose, f"{where}: action")
    values["observation"] = tuple(
        _term(item, f"{where}: observation[{k}]")
        for k, item in enumerate(_list(data["observation"], f"{where}: observation"))
    )
    values["command"] = _command(data["command"], f"{where}: command")
    for key, kind in PARTS.items():
        if isinstance(data.get(key), Mapping):
            values[key] = _built(kind, data[key], f"{where}: {key}")
    if "network" not in values:
        values["network"] = Network(file="")
    values["notes"] = tuple(_list(data.get("notes"), f"{where}: notes"))
    return _built(Description, values, where)


def as_data(value: Any) -> Any:
    """Dataclasses, mappings and tuples as YAML's dicts and lists; what has its default stays out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: as_data(item) for f in dataclasses.fields(value) if (item := getattr(value, f.name)) != f.default
        }
    if isinstance(value, Mapping):
        return {str(key): as_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_data(item) for item in value]
    return value


def _action(data: Any, joints: Sequence[str], pose: Mapping[str, float], where: str) -> Action:
    data = _mapping(data, where, Action)
    moved = _names(data["joints"], f"{where}.joints") if data.get("joints") else tuple(joints)
    if unknown := [name for name in moved if name not in joints]:
        raise PolicyImportError(f"{where}.joints has {', '.join(unknown)}, and joints are {', '.join(joints)}")
    scale = data.get("scale", 1.0)
    offset = [pose[name] for name in moved] if data.get("offset") is None else data["offset"]
    return Action(
        joints=moved,
        scale=_floats(per_name(scale, moved, f"{where}.scale"), f"{where}.scale"),
        offset=_floats(per_name(offset, moved, f"{where}.offset"), f"{where}.offset"),
        clip=_ranges(data.get("clip"), moved, f"{where}.clip"),
        raw_clip=_ranges(data.get("raw_clip"), moved, f"{where}.raw_clip"),
        **{
            key: _floats((data[key],), f"{where}.{key}")[0]
            for key in ("previous_action", "previous_result")
            if data.get(key) is not None
        },
    )


def _ranges(value: Any, names: Sequence[str], where: str) -> tuple[tuple[float, float], ...] | None:
    """A range for each of ``names``: of +-number, [low, high] for all, a list of ranges or a mapping of patterns."""
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = [-value, value]
    if isinstance(value, list | tuple) and len(value) == 2 and not isinstance(value[0], list | tuple):
        return (_pair(value, where),) * len(names)
    return tuple(_pair(pair, where) for pair in per_name(value, names, where))


def _term(data: Any, where: str) -> Term:
    data = {"term": data} if isinstance(data, str) else _mapping(data, where, Term)
    values: dict[str, Any] = dict(data)
    for key in ("scale", "value"):
        if isinstance(data.get(key), list):
            values[key] = _floats(data[key], f"{where}.{key}")
    if data.get("clip") is not None:
        values["clip"] = _pair(data["clip"], f"{where}.clip")
    return _built(Term, values, where)


def _command(data: Any, where: str) -> Command:
    data = _mapping(data, where, Command)
    ranges = data.get("ranges")
    if not isinstance(ranges, Mapping) or not set(TWIST) <= set(ranges):
        raise PolicyImportError(f"{where}.ranges must have {', '.join(TWIST)}, each [low, high]")
    return _built(Command, {**data, "ranges": {name: _pair(ranges[name], f"{where}.{name}") for name in TWIST}}, where)


def _built(kind: type, data: Any, where: str) -> Any:
    """The dataclass ``kind`` of a mapping; lists become tuples, and what does not fit its type is refused."""
    hints = typing.get_type_hints(kind)
    values = {}
    for key, value in _mapping(data, where, kind).items():
        values[key] = _frozen(value)
        if not _fits(values[key], hints[key]):
            raise PolicyImportError(f"{where}.{key} is {value!r}; expected {_shown(hints[key])}")
    try:
        return kind(**values)
    except TypeError as error:
        raise PolicyImportError(f"{where}: {error}") from None


def _mapping(data: Any, where: str, kind: type) -> dict[str, Any]:
    """``data`` if it is a mapping with keys of the dataclass ``kind``."""
    if not isinstance(data, Mapping):
        raise PolicyImportError(f"{where} is {data!r}; expected a mapping")
    names = [f.name for f in dataclasses.fields(kind)]
    for key in data:
        if key not in names:
            near = difflib.get_close_matches(str(key), names, 1)
            raise PolicyImportError(
                f"{where} has the key {key!r}; "
                + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}")
            )
    return dict(data)


def _fits(value: Any, hint: Any) -> bool:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, arg) for arg in args)
    if origin is tuple:
        kinds = (args[0],) * len(value) if isinstance(value, tuple) and args[-1] is ... else args
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(_fits, value, kinds))
    if origin is not None:  # a mapping
        return isinstance(value, Mapping) and all(isinstance(k, str) and _fits(v, args[1]) for k, v in value.items())
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
    return isinstance(value, hint) and not (hint is int and isinstance(value, bool))


def _shown(hint: Any) -> str:
    return getattr(hint, "__name__", str(hint)).replace("typing.", "").replace("collections.abc.", "")


def whole(value: Any, where: str, most: int) -> int:
    """A whole number from 1 to ``most``, before anything is made of that many."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise PolicyImportError(f"{where} is {printable(value, VALUE)}; expected a whole number from 1 to {most}")
    return value


def product(one: Any, other: Any, where: str) -> float:
    """Product of two numbers: a list times a number would be a longer list."""
    return math.prod(_floats((one, other), where))


def _list(value: Any, where: str) -> Sequence[Any]:
    if value is not None and not isinstance(value, list | tuple):
        raise PolicyImportError(f"{where} is {value!r}; expected a list")
    return _few(value or (), where)


def _names(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise PolicyImportError(f"{where} is {value!r}; expected a list of names")
    return tuple(_few(value, where))


def _few(value: Sequence[Any], where: str) -> Sequence[Any]:
    """A list that no robot's exceeds, before anything is made of what it holds."""
    if len(value) > MOST:
        raise PolicyImportError(f"{where} has {len(value)} entries: {MOST} at most")
    return value


def _floats(values: Sequence[Any], where: str) -> tuple[float, ...]:
    if wrong := [value for value in values if not _fits(value, float)]:
        raise PolicyImportError(f"{where} has {wrong[0]!r}; expected numbers")
    return tuple(float(value) for value in values)


def _pair(value: Any, where: str) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise PolicyImportError(f"{where} is {value!r}; expected [low, high]")
    low, high = _floats(value, where)
    return low, high


def _frozen(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, Mapping):
        return {key: _frozen(item) for key, item in value.items()}
    return value
