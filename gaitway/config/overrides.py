"""Layers of settings: YAML files and ``key=value``, read within limits and merged into a tree of plain data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from gaitway_files.reading import MIB, FileError, MissingFile, read_text
from gaitway_files.trust import trust
from gaitway_files.yaml_files import Loader, parse_yaml

from ..errors import ConfigError
from .moved import as_now, refuse_moved
from .tree import KIND, join, unknown_key

CONFIG_FILE = "config.yaml"
CONFIG_BYTES = 2 * MIB
"""Most of a config.yaml; the largest of ours has 20 kB."""
INTERPOLATION = "${"
REFERENCE = re.compile(r"(?<!\\)\$\{[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\}")
"""The one kind of interpolation that is filled in: another setting, by its dotted key."""


def read_layers(config_file: Path | None, overrides: Sequence[str]) -> list[dict[str, Any]]:
    """Layers of a YAML file and ``key=value`` settings, lowest priority first."""
    files = [read_settings(config_file, references=True)] if config_file else []
    return files + [_dotlist(text) for text in overrides]


def asked(layers: Sequence[Mapping[str, Any]], key: str) -> Any:
    """Value of the dotted ``key`` in the highest layer that has it; None without one."""
    for layer in reversed(layers):
        value: Any = layer
        for part in key.split("."):
            if not isinstance(value, Mapping) or part not in value:
                break
            value = value[part]
        else:
            if _references(value):
                raise ConfigError(f"{key}={value!r}: other defaults follow from it; write the value")
            return value
    return None


def apply_layers(tree: Any, layers: Sequence[Any], file: Path | None = None) -> Any:
    """``tree`` with every layer merged in; unknown keys and wrong kinds of values raise :class:`ConfigError`.

    It names ``file`` where the first layer is that file's. ``${key}`` in a layer is the value of another setting, once
    all layers are merged.
    """
    merged = tree
    for number, layer in enumerate(layers):
        try:
            merged = _apply(merged, layer, "", _keys(merged))
        except ConfigError as error:
            if file is None or number:
                raise
            raise ConfigError(f"{file}: {error}") from None
    if not any(map(_references, layers)):
        return merged
    filled = _filled(merged)
    return apply_layers(tree, [_at(layer, filled) for layer in layers], file)  # now every value is checked


def trust_settings(overrides: Sequence[str]) -> None:
    """Let configurations use the modules that ``key=value`` settings of the command line name: the user said so."""
    trust(*_modules_of([_dotlist(text) for text in overrides]))


def read_tree(path: Path) -> dict[str, Any]:
    """Settings in a ``config.yaml``, without defaults that a later version would add, in JSON's types."""
    tree = json.loads(json.dumps(read_settings(path), default=str))
    assert isinstance(tree, dict)
    return tree


def changes(before: Any, after: Any) -> dict[str, tuple[Any, Any]]:
    """Dotted keys in which two trees of plain data differ, with both values; None where a key is missing."""
    left, right = flatten(before), flatten(after)
    keys = [key for key in {**left, **right} if left.get(key, ...) != right.get(key, ...)]
    return {key: (left.get(key), right.get(key)) for key in keys}


def read_settings(path: Path, *, references: bool = False) -> dict[str, Any]:
    """The mapping of settings that a YAML file holds; with ``references`` to other settings, if it has some."""
    try:
        data = parse_yaml(read_text(path, CONFIG_BYTES), path, loader=_Loader)
    except MissingFile:
        raise ConfigError(f"cannot read {path}: No such file or directory") from None
    except FileError as error:
        raise ConfigError(f"{path} is not a valid configuration file: {error.reason}") from None
    if not isinstance(data, dict | None):
        raise ConfigError(f"{path} must hold a mapping of settings, such as 'num_envs: 512'")
    _check_plain(data, str(path), references=references)
    return as_now({str(key): value for key, value in (data or {}).items()}, str(path))


class _Loader(Loader):
    """As OmegaConf reads ``key=value``: 1e-3 is a number, which it is not in YAML 1.1, and a date is text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if not tag.endswith(":timestamp")]
    for first, known in Loader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _dotlist(text: str) -> Any:
    from omegaconf import OmegaConf

    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"setting {text!r}: write key=value, for example num_envs=512")
    _check_plain({key: value}, references=True)
    try:
        tree = OmegaConf.to_container(OmegaConf.from_dotlist([text]))
    except (yaml.YAMLError, ValueError):
        raise ConfigError(f"{key}={value[:120]!r}: the value is not valid YAML; quote it") from None
    refuse_moved(tree)
    return tree


def _check_plain(tree: Any, file: str = "", path: str = "", *, references: bool = False) -> None:
    """Refuse interpolations, which OmegaConf would resolve, for instance from the environment.

    With ``references``, those of other settings are let through.
    """
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        where = join(path, key)
        text = REFERENCE.sub("", value) if references and isinstance(value, str) else value
        if any(isinstance(part, str) and INTERPOLATION in part for part in (key, text)):
            fix = f"only {INTERPOLATION}key}} is, of another setting" if references else "write the value"
            raise ConfigError(
                (f"{file}: " if file else "") + f"{where}={value!r}: {INTERPOLATION}...}} is not filled in; {fix}"
            )
        _check_plain(value, file, where, references=references)


def _references(tree: Any) -> bool:
    """True if a value of ``tree`` refers to another setting."""
    items = tree.values() if isinstance(tree, Mapping) else tree if isinstance(tree, list) else ()
    return (isinstance(tree, str) and INTERPOLATION in tree) or any(map(_references, items))


def _filled(tree: Any) -> Any:
    """``tree`` with every reference filled in."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        return OmegaConf.to_container(OmegaConf.create(tree), resolve=True)
    except (OmegaConfBaseException, RecursionError) as error:
        reason = " ".join(str(error).split("\n")[:1]) or "settings refer to each other in a circle"
        key = getattr(error, "full_key", "")
        raise ConfigError(f"{key + ': ' if key else ''}{reason}; {INTERPOLATION}key}} names another setting") from None


def _at(layer: Any, filled: Any) -> Any:
    """``layer`` with the values that ``filled`` has at the places of its references."""
    if isinstance(layer, Mapping):
        return {key: _at(value, filled[key] if key in (filled or ()) else None) for key, value in layer.items()}
    return filled if _references(layer) else layer


def _apply(base: Any, changes: Any, path: str, known: list[str]) -> Any:
    """``base`` with ``changes`` merged in. New names need a ``func`` or ``kind``; null removes a named entry."""
    if not (isinstance(base, dict) and isinstance(changes, dict)):
        _check_kind_of_value(base, changes, path)
        return changes
    if KIND in changes and changes[KIND] != base.get(KIND):
        return changes
    merged = dict(base)
    for key, value in changes.items():
        where = join(path, key)
        if key not in base:
            complete = isinstance(value, dict) and not value.keys().isdisjoint(("func", KIND))
            if not complete and not path.endswith(
                (".params", ".fields", ".kwargs", ".chat_template_kwargs", ".weights")
            ):
                if path.endswith((".additions", "task.commands")):
                    raise ConfigError(f'{where}={value!r}: a new one needs its kind, such as {{kind: "module:Class"}}')
                raise unknown_key(where, known)
            merged[key] = value
        elif value is None and isinstance(base[key], dict) and ("func" in base[key] or path == "task.commands"):
            del merged[key]
        else:
            merged[key] = _apply(base[key], value, where, known)
    return merged


def _check_kind_of_value(base: Any, value: Any, path: str) -> None:
    """Term parameters have no declared type; their present value says what they are."""
    if ".params." not in path or base is None or _references(value):
        return
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "a mapping"}
    expected, found = kinds.get(type(base)), kinds.get(type(value))
    if expected != found:
        raise ConfigError(f"{path}={value!r}: expected {expected}, such as {base!r}")


def _keys(tree: Any, path: str = "") -> list[str]:
    if not isinstance(tree, dict):
        return []
    return [k for key, item in tree.items() for k in (join(path, key), *_keys(item, join(path, key)))]


def flatten(tree: Any, path: str = "") -> dict[str, Any]:
    """Dotted keys of nested mappings; lists are values."""
    if not isinstance(tree, dict) or not tree:
        return {path: tree}
    return {k: v for key, item in tree.items() for k, v in flatten(item, join(path, key)).items()}


def _modules_of(tree: Any) -> Iterator[str]:
    """Modules of the functions, environments and kinds that settings name."""
    items = tree.items() if isinstance(tree, Mapping) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        if key in ("func", "env_id", "environment", KIND) and isinstance(value, str) and ":" in value:
            yield value.rpartition(":")[0]
        yield from _modules_of(value)
