"""Arguments of tools, which models make up: held against the annotations of a function, or refused in words."""

from __future__ import annotations

import inspect
import json
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

from gaitway_files.errors import UserError
from gaitway_files.json_files import parse_json
from gaitway_files.reading import FileError

_KINDS: dict[Any, tuple[str, str]] = {
    str: ("string", "text"),
    int: ("integer", "a whole number"),
    float: ("number", "a number"),
    bool: ("boolean", "true or false"),
    list: ("array", "a list"),
    dict: ("object", "an object"),
}
"""Annotations with their names in JSON schema and in words. Others are taken for text."""


_FAMILIES: tuple[tuple[tuple[type, ...], type], ...] = (
    ((str, bytes), str),
    ((Mapping,), dict),
    ((Iterable, tuple, set, frozenset), list),
)
"""Classes that are given as one of those kinds."""


class ArgumentError(UserError):
    """A call that a function cannot take; the message is for the model that made it."""


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """JSON schema of a function's parameters."""
    parameters = _parameters(function)
    needed = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    properties = {name: _schema(parameter.annotation) for name, parameter in parameters.items()}
    return {"type": "object", "properties": properties, "required": needed}


def arguments_for(function: Callable[..., Any], given: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Arguments of ``function``, by place and by name, for a mapping of names or for one bare value.

    A value in another form than its annotation is converted where nothing is lost, as "4" for a whole number. Raises
    :class:`ArgumentError` for any other.
    """
    signature, parameters = inspect.signature(function), _parameters(function)
    if isinstance(given, dict) and len(given) == len(parameters) == 1 and not given.keys() & parameters.keys():
        (given,) = given.values()  # whatever name the model gave it
        bare = True
    else:
        bare = not isinstance(given, dict)
    if bare and not parameters and (given is None or not str(given).strip()):
        given, bare = {}, False
    try:
        bound = signature.bind(given) if bare else signature.bind(**given)
    except TypeError as error:
        raise ArgumentError(f"{error}; the arguments are {', '.join(parameters) or 'none'}") from None
    for name, value in bound.arguments.items():
        parameter = parameters.get(name)
        if parameter is not None and not (value is None and parameter.default is None):
            bound.arguments[name] = _converted(value, parameter.annotation, name)
    return bound.args, bound.kwargs


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Parameters that take one value each."""
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = inspect.signature(function, eval_str=True).parameters
    return {name: parameter for name, parameter in found.items() if parameter.kind not in several}


def _bare(annotation: Any) -> Any:
    """An annotation without the notes of ``Annotated``."""
    return annotation.__origin__ if get_origin(annotation) is Annotated else annotation


def _choices(annotation: Any) -> tuple[Any, ...] | None:
    """Members of a union."""
    return get_args(annotation) if get_origin(annotation) in (typing.Union, types.UnionType) else None


def _schema(annotation: Any) -> dict[str, Any]:
    annotation = _bare(annotation)
    if (choices := _choices(annotation)) is not None:
        several = [_schema(choice) for choice in choices if choice is not type(None)]
        return several[0] if len(several) == 1 else {"anyOf": several}
    if get_origin(annotation) is Literal:
        values = get_args(annotation)
        return {"type": _KINDS.get(type(values[0]), _KINDS[str])[0], "enum": list(values)}
    kind = {"type": _kind(annotation)[1][0]}
    if kind["type"] == "array" and get_args(annotation):
        return {**kind, "items": _schema(get_args(annotation)[0])}
    return kind


def _kind(annotation: Any) -> tuple[Any, tuple[str, str]]:
    """The annotation of ``_KINDS`` that one belongs to, and its names."""
    plain = get_origin(annotation) or annotation
    if not isinstance(plain, type):
        plain = str
    elif plain not in _KINDS:
        plain = next((kind for bases, kind in _FAMILIES if issubclass(plain, bases)), str)
    return plain, _KINDS[plain]


def _converted(value: Any, annotation: Any, name: str) -> Any:
    annotation = _bare(annotation)
    if annotation is Any:
        return value
    if (choices := _choices(annotation)) is not None:
        return _one_of(value, choices, name)
    if get_origin(annotation) is Literal:
        values = get_args(annotation)
        found = next((v for v in values if v == value and type(v) is type(value)), None)
        found = next((v for v in values if str(v) == value), None) if found is None else found
        if found is None:
            raise ArgumentError(f"{name} must be one of {', '.join(map(json.dumps, values))}")
        return found
    plain, (_, words) = _kind(annotation)
    converted = _CONVERSIONS[plain](value)
    if converted is None:
        raise ArgumentError(f"{name} must be {words}, not {_told(value)}")
    parts = get_args(annotation)
    if plain is list:
        items = [_converted(item, parts[0], f"an item of {name}") for item in converted] if parts else converted
        concrete = get_origin(annotation) or annotation
        return concrete(items) if concrete in (tuple, set, frozenset) else items
    if plain is dict and len(parts) == 2:
        return {key: _converted(item, parts[1], f"{key[:60]!r} of {name}") for key, item in converted.items()}
    return converted


def _one_of(value: Any, choices: Sequence[Any], name: str) -> Any:
    """A value as the first member of a union that takes it as it is, or else that it can be converted to."""
    if value is None and type(None) in choices:
        return None
    wanted = [choice for choice in choices if choice is not type(None)]
    exact = [choice for choice in wanted if (get_origin(choice) or choice) is type(value)]
    for choice in [*exact, *wanted]:
        try:
            return _converted(value, choice, name)
        except ArgumentError:
            if len(wanted) == 1:
                raise
    words = " or ".join(dict.fromkeys(_kind(choice)[1][1] for choice in wanted))
    raise ArgumentError(f"{name} must be {words}, not {_told(value)}")


def _told(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str):
        try:
            return int(value.strip())
        except ValueError:
            return None
    return value if isinstance(value, int) else None


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _truth(value: Any) -> bool | None:
    word = value.strip().lower() if isinstance(value, str) else value
    return (
        {"true": True, "false": False}.get(word) if isinstance(word, str) else word if isinstance(word, bool) else None
    )


def _of_json(kind: type) -> Callable[[Any], Any]:
    """Conversion to a list or a mapping, which may be given as JSON text."""

    def convert(value: Any) -> Any:
        if isinstance(value, str):
            try:
                value = parse_json(value, "the argument")
            except FileError:
                return None
        return value if isinstance(value, kind) else None

    return convert


_CONVERSIONS: dict[Any, Callable[[Any], Any]] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: _truth,
    list: _of_json(list),
    dict: _of_json(dict),
}
"""Conversions by annotation; None for a value that is not converted."""
