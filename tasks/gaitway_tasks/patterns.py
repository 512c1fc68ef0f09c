"""Names by pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from gaitway_files.errors import UserError

T = TypeVar("T")


def matches(pattern: str, name: str) -> bool:
    """True if the regular expression ``pattern`` matches all of ``name``. Raises ``ValueError`` for an invalid one."""
    try:
        return re.fullmatch(pattern, name) is not None
    except (re.error, TypeError) as error:
        raise UserError(f"{pattern!r} is no pattern of names, such as '.*_foot': {error}") from None


def by_pattern(joints: Iterable[str | None], values: Mapping[str, T]) -> dict[str, T]:
    """Value for each joint: that of the first regular expression in ``values`` that matches its whole name."""
    found = {}
    for name in joints:
        if name is None:
            continue
        matching = [value for pattern, value in values.items() if matches(pattern, name)]
        if not matching:
            raise UserError(f"no pattern matches joint {name!r}: {', '.join(values)}")
        found[name] = matching[0]
    return found
