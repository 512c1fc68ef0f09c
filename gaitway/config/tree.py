"""Frozen dataclasses to plain data and back: ``config.yaml`` reads back to an equal tree.

Dataclasses become mappings, tuples become lists and functions ``module:function``. A robot's model file becomes
``robot:<name>`` if it is Gaitway's and ``package:<package>/<file>`` if it lies in another package, so that a run folder
can move between machines. Where a field allows several dataclasses, ``kind`` names the one meant; with :class:`Kinds`
only that one is imported.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gaitway_agents.additions import AdditionConfig
from gaitway_files.trust import PACKAGE, function_named, object_named, packaged, packaged_file
from gaitway_tasks.actions import Action
from gaitway_tasks.commands import Command
from gaitway_tasks.ground import Ground

from ..errors import ConfigError, nearest

KIND = "kind"
_LARGEST = 3.4e38  # of 32 bits, in which simulators and learners compute
_LARGEST_WHOLE = 2**63 - 1
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


class Kinds:
    """The dataclasses that a field may hold, as ``module:Class``; each is imported when a value of it is read.

    A field is declared ``Annotated[Any, Kinds(...)]``; with ``optional`` it may also be None, with ``base``
    also a subclass of that in another package, ``module:Class``. With ``implied``, ``kind`` is left out of the first
    one, as it is where there is only one: files of a version that knew no other do not have it.
    """

    def __init__(
        self,
        *paths: str | Callable[[], Iterable[str]],
        optional: bool = False,
        base: type | None = None,
        implied: bool = False,
    ):
        self._paths, self.optional, self.base, self._implied = paths, optional, base, implied

    @property
    def paths(self) -> dict[str, str]:
        """Paths by the name of the class; those of a table are looked up, since it may have grown."""
        given = [path for each in self._paths for path in ([each] if isinstance(each, str) else each())]
        return {path.rpartition(":")[2]: path for path in given}

    @property
    def unsaid(self) -> str | None:
        """Kind of a value without ``kind``; None if it must be said."""
        paths = self.paths
        return next(iter(paths)) if self._implied or len(paths) == 1 else None

    def read(self, data: Any, path: str) -> Any:
        """The value that ``data`` describes; ``path`` is its dotted key, for messages."""
        if data is None and self.optional:
            return None
        _expect(isinstance(data, Mapping), path, data, "a mapping")
        kind = data.get(KIND, self.unsaid)
        if isinstance(kind, str) and kind in self.paths:
            return _dataclass_from(named(self.paths[kind]), data, path)
        if self.base is None or not isinstance(kind, str) or ":" not in kind:
            raise ConfigError(f"{join(path, KIND)}={kind!r}: use {self._choice()}")
        found = object_named(kind)
        if not (isinstance(found, type) and issubclass(found, self.base) and dataclasses.is_dataclass(found)):
            raise ConfigError(f"{join(path, KIND)}={kind!r}: this is no dataclass derived from {self.base.__name__}")
        if lacks := sorted(getattr(found, "__abstractmethods__", ())):
            raise ConfigError(f"{join(path, KIND)}={kind!r}: it lacks {' and '.join(lacks)}")
        return _dataclass_from(found, data, path)

    def _choice(self) -> str:
        listed = f"one of {', '.join(self.paths)}" if self.paths else ""
        theirs = "" if self.base is None else f"module:Class of another {self.base.__name__}"
        return " or ".join(filter(None, (listed, theirs)))

    def name_of(self, cls: type) -> str:
        """Name of ``cls`` in the key ``kind``."""
        return cls.__name__ if cls.__name__ in self.paths or self.base is None else f"{cls.__module__}:{cls.__name__}"


def named(path: str) -> Any:
    """Object named by ``module:name``; the module is one of ours."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


OPEN = {
    base: Kinds(*sys.modules[base.__module__].KINDS, base=base, implied=base is not Ground)
    for base in (Action, AdditionConfig, Command, Ground)
}
"""Parts of a task or agent that come in kinds, of other packages too."""


def _kinds_of(hint: Any) -> Kinds | None:
    if isinstance(hint, type) and hint in OPEN:
        return OPEN[hint]
    return next((part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Kinds)), None)


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    """The declared types of a dataclass's fields; of what is annotated, only kinds are kept."""
    plain, full = typing.get_type_hints(cls), typing.get_type_hints(cls, include_extras=True)
    return {name: full[name] if _kinds_of(full[name]) else hint for name, hint in plain.items()}


def to_tree(value: Any, hint: Any = Any) -> Any:
    """Plain data (mappings, lists, numbers, text, None) for ``value``, a field declared as ``hint``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        tree = fields_to_tree(type(value), {f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
        kinds = _kinds_of(hint)
        kind = kinds.name_of(type(value)) if kinds else type(value).__name__
        said = kind != kinds.unsaid if kinds else len(_dataclasses_of(hint)) > 1
        return {KIND: kind, **tree} if said else tree
    if isinstance(value, Mapping):
        args = typing.get_args(hint)
        return {key: to_tree(item, args[1] if len(args) == 2 else Any) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_tree(item) for item in value]
    if isinstance(value, Path):
        return _path_to_text(value)
    if callable(value):
        return _function_to_text(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ConfigError(f"{value!r} cannot be written to a configuration file")


def fields_to_tree(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data for ``values`` of all fields of the dataclass ``cls``, before an object of it is made."""
    hints = _hints(cls)
    return {f.name: to_tree(values[f.name], hints[f.name]) for f in dataclasses.fields(cls)}


def from_tree(hint: Any, data: Any, path: str = "") -> Any:
    """The value of type ``hint`` that ``data`` describes; ``path`` is its dotted key, for messages."""
    _check_number(data, path)
    if hint is Any:
        return _freeze(data, path)
    if kinds := _kinds_of(hint):
        return kinds.read(data, path)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _dataclass_from(hint, data, path)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union_from(args, data, path)
    if origin is tuple:
        return _tuple_from(args, data, path)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        _expect(isinstance(data, Mapping), path, data, "a mapping")
        return {
            from_tree(int, key, path) if args[0] is int else str(key): from_tree(args[1], item, join(path, key))
            for key, item in data.items()
        }
    if origin is not None and issubclass(origin, Callable):  # type: ignore[arg-type]
        return function_from(data, path)
    if hint is Path:
        return _path_from(data, path)
    return _scalar_from(hint, data, path)


def join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _dataclass_from(cls: type, data: Any, path: str) -> Any:
    _expect(isinstance(data, Mapping), path, data, "a mapping")
    hints = _hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for key in data:
        if key not in fields and key != KIND:
            raise unknown_key(join(path, key), [join(path, name) for name in fields])
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in data:
            raise ConfigError(f"{join(path, name)} is missing: {path or 'the configuration'} needs it")
    values = {key: from_tree(hints[key], item, join(path, key)) for key, item in data.items() if key in fields}
    if "func" in values:
        _check_params(values["func"], values.get("params", {}), path)
    try:
        return cls(**values)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{path}: {error}" if path else str(error)) from None


def unknown_key(key: str, known: list[str]) -> ConfigError:
    """The error for a key that does not exist, with the nearest that does: same leaf elsewhere, or near spelling."""
    leaf = key.rpartition(".")[2]
    same_leaf = [k for k in known if k.rpartition(".")[2] == leaf]
    near = nearest(key, same_leaf) or (same_leaf[0] if same_leaf else None) or nearest(key, known)
    return ConfigError(f"unknown key {key!r}" + (f": did you mean {near!r}?" if near else ""))


def _union_from(args: tuple[Any, ...], data: Any, path: str) -> Any:
    if data is None and type(None) in args:
        return None
    classes = _dataclasses_of(args)
    if len(classes) > 1:
        _expect(isinstance(data, Mapping), path, data, "a mapping")
        by_name = {cls.__name__: cls for cls in classes}
        kind = data.get(KIND)
        if not isinstance(kind, str) or kind not in by_name:
            raise ConfigError(f"{join(path, KIND)}={kind!r}: use one of {', '.join(by_name)}")
        return _dataclass_from(by_name[kind], data, path)
    rest = [arg for arg in args if arg is not type(None)]
    kinds = {Mapping: Mapping, list: tuple, tuple: tuple}
    wanted = next((kind for shape, kind in kinds.items() if isinstance(data, shape)), None)
    same = [arg for arg in rest if wanted is not None and _origin_is(arg, wanted)]
    return from_tree((same or rest)[0], data, path)


def _origin_is(hint: Any, kind: type) -> bool:
    origin = typing.get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, kind)


def _dataclasses_of(hint: Any) -> list[type]:
    args = hint if isinstance(hint, tuple) else typing.get_args(hint)
    return [arg for arg in args if isinstance(arg, type) and dataclasses.is_dataclass(arg)]


def _tuple_from(args: tuple[Any, ...], data: Any, path: str) -> tuple[Any, ...]:
    _expect(isinstance(data, list | tuple), path, data, "a list such as [a, b]")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(from_tree(args[0], item, f"{path}[{i}]") for i, item in enumerate(data))
    _expect(len(data) == len(args), path, data, f"a list of {len(args)} values")
    return tuple(from_tree(arg, item, f"{path}[{i}]") for i, (arg, item) in enumerate(zip(args, data, strict=True)))


def _scalar_from(hint: Any, data: Any, path: str) -> Any:
    number = isinstance(data, int | float) and not isinstance(data, bool)
    if hint is float and number:
        return float(data)
    if hint is int and number and float(data).is_integer():
        return int(data)  # so that total_steps=2e6 is what it looks like
    _expect(hint not in (int, float) and isinstance(data, hint), path, data, _WORDS.get(hint, str(hint)))
    return data


def _expect(ok: bool, path: str, data: Any, expected: str) -> None:
    if not ok:
        raise ConfigError(f"{path}={_short(data)}: expected {expected}")


def _short(data: Any) -> str:
    """Text of a value, cut if it is very long."""
    long = isinstance(data, int) and abs(data) > _LARGEST_WHOLE  # Python writes out no more than 4,300 digits
    text = hex(data) if long else repr(data)
    return text if len(text) <= 120 else f"{text[:120]}..."


def _check_number(data: Any, path: str) -> None:
    """Refusal of numbers that no simulator can compute with; only a task's ``clip`` may be infinite."""
    if isinstance(data, int):
        _expect(abs(data) <= _LARGEST_WHOLE, path, data, "a number that has room in 64 bits")
    elif isinstance(data, float):
        infinite = abs(data) == math.inf and path.startswith("task.") and ".clip" in path
        _expect(infinite or abs(data) <= _LARGEST, path, data, "a finite number, at most 3.4e38")


def _freeze(data: Any, path: str) -> Any:
    _check_number(data, path)
    if isinstance(data, Mapping):
        return {key: _freeze(item, join(path, key)) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return tuple(_freeze(item, f"{path}[{i}]") for i, item in enumerate(data))
    return data


# ---- functions and files ---------------------------------------------------------------------------------------------


def _function_to_text(func: Callable[..., Any]) -> str:
    name = getattr(func, "__qualname__", "")
    if not name.isidentifier() or func.__module__ == "__main__":
        raise ConfigError(
            f"the function {name!r} of {func.__module__} cannot be named in a configuration file: put it into a module "
            "of its own, as a plain function"
        )
    return f"{func.__module__}:{name}"


def function_from(data: Any, path: str) -> Callable[..., Any]:
    """The function that ``module:function`` names; ``path`` says where that was read, for messages."""
    _expect(isinstance(data, str) and data.count(":") == 1, path, data, "a function, as module:function")
    module, name = data.split(":")
    try:
        return function_named(data, path)
    except ImportError as error:
        raise ConfigError(f"{path}={data!r}: cannot import {module!r}: {error}") from None
    except LookupError as error:
        names = [n for n, f in vars(sys.modules[module]).items() if inspect.isfunction(f) and not n.startswith("_")]
        near = nearest(name, names)
        raise ConfigError(f"{path}={data!r}: {error.args[0]}" + (f"; did you mean {near!r}?" if near else "")) from None


def _check_params(func: Callable[..., Any], params: Mapping[str, Any], path: str) -> None:
    """The keys of ``params`` must be arguments of the term, all of those without a default among them.

    What a reward for texts is not given by ``params`` comes from the rows.
    """
    given = ("self", "world", "env_ids", "prompts", "completions")
    parameters = inspect.signature(func.__call__ if isinstance(func, type) else func).parameters
    accepted = {n: p for n, p in parameters.items() if n not in given and p.kind is not p.VAR_KEYWORD}
    for key in params:
        if key not in accepted:
            raise unknown_key(join(path, f"params.{key}"), [join(path, f"params.{name}") for name in accepted])
    for name, parameter in accepted.items():
        if parameter.default is parameter.empty and name not in params and "completions" not in parameters:
            raise ConfigError(f"{join(path, f'params.{name}')} is missing: {func.__name__} needs it")


def _path_to_text(path: Path) -> str:
    from gaitway_tasks.robots.known import own

    ours = next((f"robot:{name}" for name, described in own().items() if described.robot.mjcf == path), None)
    return ours or packaged(path) or str(path)


def _path_from(data: Any, path: str) -> Path:
    from gaitway_tasks.registry import UnknownNameError
    from gaitway_tasks.robots.known import own

    _expect(isinstance(data, str), path, data, "a file name, robot:<name> or package:<package>/<file>")
    if data.startswith("robot:"):
        name = data.removeprefix("robot:")
        if name not in own():
            raise UnknownNameError("robot", name, own())
        return own()[name].robot.mjcf
    if data.startswith(PACKAGE):
        try:
            return packaged_file(data)
        except LookupError as error:
            raise ConfigError(f"{path}={data!r}: {error.args[0]}") from None
    return Path(data)
