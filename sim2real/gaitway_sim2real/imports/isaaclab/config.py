"""YAML files of a run, read without executing anything in them.

Isaac Lab writes its configurations with PyYAML's full dumper, whose tags name Python objects to rebuild. Tuples,
slices, paths and references to functions and classes are read as the values they represent; every other object becomes
an :class:`Opaque`, which is an error only where its value is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from gaitway_files.reading import FileError, MissingFile
from gaitway_files.yaml_files import Loader
from gaitway_files.yaml_files import read_yaml as within_limits

from .errors import IsaacLabImportError


@dataclass(frozen=True)
class Opaque:
    """A Python object that the file describes by a tag and that was not rebuilt."""

    tag: str


class _Loader(Loader):
    """Safe loader that reads the tags of Isaac Lab's files."""


PYTHON = "tag:yaml.org,2002:python/"


def _python(loader: Any, suffix: str, node: yaml.Node) -> Any:
    kind, _, target = suffix.partition(":")
    if kind == "tuple":
        return tuple(loader.construct_sequence(node, deep=True))
    if kind in ("str", "unicode"):
        return loader.construct_scalar(node)
    if kind == "name":  # a function or class, which Isaac Lab itself writes as module:name
        return ":".join(target.rsplit(".", 1))
    if kind == "object/apply" and isinstance(node, yaml.SequenceNode):
        if target == "builtins.slice":
            return slice(*loader.construct_sequence(node, deep=True))
        if target.startswith("pathlib."):
            return str(Path(*loader.construct_sequence(node, deep=True)))
    return Opaque(suffix)


_Loader.add_multi_constructor(PYTHON, _python)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in ``path``. Raises :class:`IsaacLabImportError` if it is missing, broken or no mapping."""
    try:
        data = within_limits(path, loader=_Loader, tags=True)
    except MissingFile:
        raise IsaacLabImportError(f"cannot read {path}: No such file") from None
    except FileError as error:
        raise IsaacLabImportError(f"{path} is not YAML as Isaac Lab writes it: {error.reason}") from None
    if not isinstance(data, dict):
        raise IsaacLabImportError(f"{path} holds {type(data).__name__}, not the settings of a run")
    return data


class Settings:
    """A node of a configuration with its file and key, for error messages."""

    def __init__(self, data: Mapping[str, Any], where: str):
        self.data, self.where = data, where

    def __contains__(self, key: str) -> bool:
        return given(self.data.get(key))

    def child(self, key: str) -> Settings:
        """The mapping under ``key``; must be there."""
        value = self.require(key, dict)
        return Settings(value, f"{self.where}.{key}")

    def children(self, key: str) -> dict[str, Settings]:
        """The mappings under ``key`` that are not ``None`` (Isaac Lab's way to disable a term)."""
        node = self.child(key)
        return {name: node.child(name) for name, value in node.data.items() if isinstance(value, dict) and value}

    def require(self, key: str, kind: type | tuple[type, ...]) -> Any:
        """The value under ``key``, of one of the types ``kind``."""
        value = self.data.get(key)
        if not given(value) and dict not in (kind if isinstance(kind, tuple) else (kind,)):
            raise IsaacLabImportError(f"{self.where} has no {key!r}: is this file the one Isaac Lab wrote?")
        return self._typed(key, value, kind)

    def get(self, key: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """The value under ``key``, or ``default`` where it is absent, null or never set."""
        value = self.data.get(key)
        return self._typed(key, value, kind) if given(value) else default

    def _typed(self, key: str, value: Any, kind: type | tuple[type, ...]) -> Any:
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if float in kinds:
            kinds = (*kinds, int)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            expected = " or ".join(k.__name__ for k in kinds)
            found = f"a Python object ({value.tag})" if isinstance(value, Opaque) else repr(value)
            raise IsaacLabImportError(f"{self.where}.{key} is {found}; expected {expected}")
        return value


def given(value: Any) -> bool:
    """True if a value was set: Isaac Lab 3.0 writes ``{}`` for a field that never was."""
    return value is not None and value != {}
