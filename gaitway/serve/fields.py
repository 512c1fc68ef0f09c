"""Fields of requests in JSON: of the right kind and size, or a UserError that names them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from gaitway_files.errors import UserError

Body = Mapping[str, Any]
Number = TypeVar("Number", int, float)
MOST_NOTES = 2**14


def text_of(body: Body, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value or len(value) > 256:
        raise UserError(f"{name} {value!r}: must be a text")
    return value


def number_of(
    body: Body, name: str, low: Number = 0, high: Number = 2**63 - 1, default: Number | None = None
) -> Number:
    """A number from ``low`` to ``high``, whole unless they are floats; ``default``, if any, for one not given."""
    value: Any = body.get(name)
    kind = type(low)
    if value is None and default is not None:
        return default
    if type(value) not in (int, kind) or not low <= value <= high:
        raise UserError(f"{name} {value!r}: must be a {'whole ' * (kind is int)}number from {low} to {high}")
    return kind(value)


def metadata_of(body: Body) -> dict[str, Any] | None:
    """Notes of the user's, which are kept: an object of at most 16 thousand characters."""
    value = body.get("user_metadata")
    if value is not None and (not isinstance(value, dict) or len(json.dumps(value)) > MOST_NOTES):
        raise UserError(f"user_metadata: must be an object of at most {MOST_NOTES} characters")
    return value
