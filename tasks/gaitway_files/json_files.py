"""JSON within limits: how large, how deep, which numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NoReturn

from .errors import UserError
from .reading import TEXT_BYTES, FileError, as_text, one_line, read_bytes, size

DEPTH = 100
"""Most levels of lists and objects within each other."""
INTEGER = 2**64
"""Integers are smaller than this."""

_SUSPECT = re.compile(r"[0-9]{19}|[eE]\+?[0-9]{3}")


def read_json(path: str | Path, *, limit: int = TEXT_BYTES, nan: bool = False) -> Any:
    """Content of a JSON file. Raises :class:`FileError`. As :func:`parse_json`."""
    return parse_json(read_bytes(path, limit), path, limit=limit, nan=nan)


def parse_json(content: bytes | str, name: object, *, limit: int = TEXT_BYTES, nan: bool = False) -> Any:
    """Content of the JSON text ``content``; ``name`` is its name in a :class:`FileError`.

    A key that stands twice in an object and an integer of more than 64 bits are refused. With ``nan``, so are not the
    words NaN and Infinity, which Python writes for numbers that are not finite.
    """
    if len(content) > limit:
        raise FileError(name, f"has {size(len(content))}; at most {size(limit)} are read")
    text = as_text(content, name) if isinstance(content, bytes) else content
    hooks: dict[str, Any] = {"object_pairs_hook": _object}
    if not nan:
        hooks["parse_constant"] = _constant
    if _SUSPECT.search(text):
        hooks |= {"parse_int": _integer, "parse_float": _number}
    try:
        value = json.loads(text, **hooks)
    except (ValueError, RecursionError) as error:
        reason = f"more than {DEPTH} levels deep" if isinstance(error, RecursionError) else one_line(error)
        raise FileError(name, f"is not JSON, or cut off ({reason})") from None
    if text.count("[") + text.count("{") > DEPTH and _deeper(value, DEPTH):
        raise FileError(name, f"more than {DEPTH} levels deep")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise UserError(f"the key {next(key for key in keys if keys.count(key) > 1)[:60]!r} stands twice")
    return found


def _constant(word: str) -> NoReturn:
    raise UserError(f"the number {word} is not finite")


def _integer(digits: str) -> int:
    if len(digits) > 20 or not -INTEGER < (value := int(digits)) < INTEGER:
        raise UserError(f"an integer of {len(digits)} digits does not fit into 64 bits")
    return value


def _number(text: str) -> float:
    if (value := float(text)) in (float("inf"), float("-inf")):
        raise UserError(f"the number {text[:60]} is too large")
    return value


def _deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most + 1):
        level = [holder for holder in level if isinstance(holder, dict | list)]
        if not level:
            return False
        level = [item for holder in level for item in (holder.values() if isinstance(holder, dict) else holder)]
    return True
