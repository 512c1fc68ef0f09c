"""Fields of requests in JSON: of the right kind and size, or a UserError that names them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gaitway_files.errors import UserError

Body = Mapping[str, Any]
MOST_NOTES = 2**14


def text_of(body: Body, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value or len(value) > 256:
        raise UserError(f"{name} {value!r}: must be a text")
    return value


def number_of(body: Body, name: str) -> int:
    """A number that the client counts with."""
    value = body.get(name)
    if type(value) is not int or not 0 <= value < 2**63:
        raise UserError(f"{name} {value!r}: must be a whole number from 0")
    return value


def metadata_of(body: Body) -> dict[str, Any] | None:
    """Notes of the user's, which are kept: an object of at most 16 thousand characters."""
    value = body.get("user_metadata")
    if value is not None and (not isinstance(value, dict) or len(json.dumps(value)) > MOST_NOTES):
        raise UserError(f"user_metadata: must be an object of at most {MOST_NOTES} characters")
    return value


def whole_of(body: Body, name: str, low: int, high: int, default: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not int or not low <= value <= high:
        raise UserError(f"{name} {value!r}: must be a whole number from {low} to {high}")
    return value


def real_of(body: Body, name: str, low: float, high: float, default: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    if type(value) not in (int, float) or not low <= value <= high:
        raise UserError(f"{name} {value!r}: must be a number from {low:g} to {high:g}")
    return float(value)
