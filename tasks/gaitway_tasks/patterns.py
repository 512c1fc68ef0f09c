"""Names by pattern."""

from __future__ import annotations

import re


def matches(pattern: str, name: str) -> bool:
    """Is all of ``name`` what the regular expression ``pattern`` describes? ``ValueError`` if it is none."""
    try:
        return re.fullmatch(pattern, name) is not None
    except (re.error, TypeError) as error:
        raise ValueError(f"{pattern!r} is no pattern of names, such as '.*_foot': {error}") from None
