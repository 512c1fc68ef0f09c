"""Names by pattern."""

from __future__ import annotations

import re

from gaitway_files.errors import UserError


def matches(pattern: str, name: str) -> bool:
    """Whether the regular expression ``pattern`` matches all of ``name``. Raises ``ValueError`` for an invalid one."""
    try:
        return re.fullmatch(pattern, name) is not None
    except (re.error, TypeError) as error:
        raise UserError(f"{pattern!r} is no pattern of names, such as '.*_foot': {error}") from None
