"""Check a value against the small part of JSON Schema that contract.schema.json uses.

A robot's computer gets no schema library for one file. ``tests/sim2real/onboard/bundle/test_contract.py`` holds this
checker against a complete implementation.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CONTRACT_SCHEMA: dict[str, Any] = json.loads(Path(__file__).with_name("contract.schema.json").read_text("utf-8"))


def problems(value: Any, schema: dict[str, Any], where: str = "") -> Iterator[str]:
    """Yield one sentence per fault, each naming the key, its value and what is expected there."""
    if "$ref" in schema:
        schema = CONTRACT_SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    name = where or "the file"
    if "oneOf" in schema:
        if sum(not any(problems(value, option, where)) for option in schema["oneOf"]) != 1:
            expected = " or ".join(_expectation(option) for option in schema["oneOf"])
            yield f"{name} is {_show(value)}, expected {expected}"
        return
    if not _fits(value, schema):
        yield f"{name} is {_show(value)}, expected {_expectation(schema)}"
        return
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for key in schema.get("required", ()):
            if key not in value:
                yield f"{_join(where, key)} is missing"
        other = schema.get("additionalProperties", True)
        for key, item in value.items():
            if key in known:
                yield from problems(item, known[key], _join(where, key))
            elif isinstance(other, dict):
                yield from problems(item, other, _join(where, key))
            elif not other:
                yield f"{_join(where, str(key))} is not a key of this format"
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from problems(item, schema["items"], f"{name}[{index}]")


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    """The checks that look at this value only, not at what it contains."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    kinds = {
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "string": isinstance(value, str),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": number and (isinstance(value, int) or math.isfinite(value)),
        "boolean": isinstance(value, bool),
        "null": value is None,
    }
    if "type" in schema and not kinds[schema["type"]]:
        return False
    if "const" in schema and (value != schema["const"] or isinstance(value, bool)):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        return False
    if isinstance(value, list) and not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", math.inf):
        return False
    return not number or (
        schema.get("minimum", -math.inf) <= value <= schema.get("maximum", math.inf)
        and value > schema.get("exclusiveMinimum", -math.inf)
    )


def _expectation(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        schema = CONTRACT_SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if "const" in schema:
        return repr(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    text = {"object": "a mapping", "array": "a list", "string": "text", "integer": "a whole number",
            "number": "a finite number", "boolean": "true or false", "null": "nothing"}[schema["type"]]  # fmt: skip
    if "minItems" in schema:
        same = schema["minItems"] == schema.get("maxItems")
        many = f" to {schema['maxItems']}" if "maxItems" in schema else " or more"
        text += f" of {schema['minItems']}" + ("" if same else many)
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<="}
    bounds = [f"{sign} {schema[word]:g}" for word, sign in signs.items() if word in schema]
    text += " " * bool(bounds) + " and ".join(bounds)
    if "pattern" in schema:
        text += f" matching {schema['pattern']}"
    return text


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
