"""YAML read within limits (size, depth, values once aliases are written out, numbers), and YAML as we write it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .errors import UserError
from .reading import TEXT_BYTES, FileError, as_text, one_line, read_bytes, size

DEPTH = 100
"""Most levels of lists and mappings within each other."""
VALUES = 500_000
"""Most values, each alias counted as what it stands for."""
NUMBER_CHARACTERS = 64
"""Most characters of a number; the longest of a 64-bit one has 25."""
INTEGER = 2**64
"""Integers are smaller than this."""

_NUMERIC = re.compile(r"[-+.]?[0-9][0-9a-fA-F_xob:.+-]*")
_ODD = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)
"""Errors of PyYAML on malformed input, not all of them its own."""


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader, in C where PyYAML has it, with integers of 64 bits."""


def _integer(loader: Any, node: Any) -> int:
    value = yaml.SafeLoader.construct_yaml_int(loader, node)
    if not -INTEGER < value < INTEGER:
        raise UserError(f"the integer {node.value} in line {node.start_mark.line + 1} does not fit into 64 bits")
    return int(value)


Loader.add_constructor("tag:yaml.org,2002:int", _integer)


class Dumper(yaml.SafeDumper):
    """Leaves of lists on one line, no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> yaml.SequenceNode:
        leaf = not any(isinstance(item, dict | list) for item in sequence)
        return super().represent_sequence(tag, sequence, flow_style=leaf or flow_style)


def dump_yaml(data: Any) -> str:
    """The text of plain ``data`` in its own order. Floats are written in full and read back exactly."""
    return str(yaml.dump(data, Dumper=Dumper, sort_keys=False, width=120, allow_unicode=True))


def read_yaml(path: str | Path, *, limit: int = TEXT_BYTES, loader: type = Loader, tags: bool = False) -> Any:
    """Content of a YAML file; None for an empty one. Raises :class:`FileError`. As :func:`parse_yaml`."""
    return parse_yaml(read_bytes(path, limit), path, limit=limit, loader=loader, tags=tags)


def parse_yaml(
    content: bytes | str, name: object, *, limit: int = TEXT_BYTES, loader: type = Loader, tags: bool = False
) -> Any:
    """Content of the YAML text ``content``; ``name`` is its name in a :class:`FileError`.

    A key that stands twice in a mapping is refused, and so are tags, unless ``tags`` says that ``loader``, a safe one,
    gives them a meaning.
    """
    if len(content) > limit:
        raise FileError(name, f"has {size(len(content))}; at most {size(limit)} are read")
    text = as_text(content, name) if isinstance(content, bytes) else content
    try:
        _check(text, name, tags)
        return yaml.load(text, Loader=loader)
    except FileError:
        raise
    except _ODD as error:
        raise FileError(name, f"is not YAML, or cut off ({one_line(error)})") from None


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet."""

    anchor: str | None
    mapping: bool
    keys: set[str] = field(default_factory=set)
    children: int = 0
    values: int = 1
    height: int = 1


def _check(text: str, name: object, tags: bool) -> None:
    """One pass over the parser's events, before anything is built."""
    open_ones: list[_Open] = []
    anchors: dict[str, tuple[int, int] | None] = {}
    total = 0
    event: Any
    for event in yaml.parse(text, Loader=Loader):
        kind = type(event)
        if kind is yaml.ScalarEvent:
            done = _Open(event.anchor, False)
            if (
                (event.implicit[0] or event.tag)
                and len(event.value) > NUMBER_CHARACTERS
                and _NUMERIC.fullmatch(event.value)
            ):
                raise FileError(
                    name, f"a number of {len(event.value)} characters in line {_line(event)}; at most "
                    f"{NUMBER_CHARACTERS} are read"
                )  # fmt: skip
        elif kind is yaml.AliasEvent:
            if (found := anchors.get(event.anchor, (1, 1))) is None:
                raise FileError(name, f"*{event.anchor} in line {_line(event)} stands for what it is part of")
            done = _Open(None, False, values=found[0], height=found[1])
        elif kind in (yaml.SequenceStartEvent, yaml.MappingStartEvent):
            open_ones.append(_Open(event.anchor, kind is yaml.MappingStartEvent))
            if event.anchor is not None:
                anchors[event.anchor] = None
            if len(open_ones) > DEPTH:
                raise FileError(name, f"more than {DEPTH} levels deep in line {_line(event)}")
            _check_tag(event, name, tags)
            continue
        elif kind in (yaml.SequenceEndEvent, yaml.MappingEndEvent):
            done = open_ones.pop()
        else:
            continue
        _check_tag(event, name, tags)
        if done.anchor is not None:
            anchors[done.anchor] = (done.values, done.height)
        total += done.values if kind is yaml.AliasEvent else 1
        if total > VALUES:
            raise FileError(name, f"more than {VALUES} values, with its aliases written out, in line {_line(event)}")
        if open_ones:
            _add(open_ones[-1], done, len(open_ones), event, name)


def _add(parent: _Open, child: _Open, level: int, event: Any, name: object) -> None:
    if parent.mapping and parent.children % 2 == 0 and type(event) is yaml.ScalarEvent and event.value != "<<":
        if event.value in parent.keys:
            raise FileError(name, f"has the key {event.value[:60]!r} twice, again in line {_line(event)}")
        parent.keys.add(event.value)
    parent.children += 1
    parent.values += child.values
    parent.height = max(parent.height, child.height + 1)
    if level + child.height > DEPTH + 1:
        raise FileError(name, f"more than {DEPTH} levels deep, with its aliases written out, in line {_line(event)}")


def _check_tag(event: Any, name: object, tags: bool) -> None:
    if not tags and (tag := getattr(event, "tag", None)) is not None and tag != "!":
        raise FileError(name, f"has the tag {tag[:60]!r} in line {_line(event)}: YAML without tags is read")


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
