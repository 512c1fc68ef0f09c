"""Isaac Lab's rules for regular expressions over joint names, used for a configuration's mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gaitway_files.patterns import PatternError, matches

from .errors import IsaacLabImportError

MOST = 256
"""Most patterns of one setting; Isaac Lab's own have up to 30."""


class NoMatch(IsaacLabImportError):
    """A pattern that matches no joint."""


def matching(patterns: str | Sequence[str], names: Sequence[str], what: str, *, preserve_order: bool) -> list[str]:
    """The ``names`` that match fully, as ``Articulation.find_joints`` lists them.

    In the order of ``names``, or with ``preserve_order`` in that of ``patterns``. Raises if a name matches two
    patterns or a pattern matches nothing; ``what`` names the place of the patterns.
    """
    patterns = [patterns] if isinstance(patterns, str) else list(patterns)
    owner = _owners(patterns, names, what)
    if not preserve_order:
        return [name for name in names if name in owner]
    return [name for pattern in patterns for name in names if owner.get(name) == pattern]


def values(mapping: Mapping[str, Any], names: Sequence[str], what: str) -> dict[str, Any]:
    """``{name: value}`` for the names that a pattern of ``mapping`` matches; the same rules."""
    owner = _owners(list(mapping), names, what)
    return {name: mapping[pattern] for name, pattern in owner.items()}


def _owners(patterns: list[str], names: Sequence[str], what: str) -> dict[str, str]:
    """The pattern that each matched name matches."""
    if len(patterns) > MOST:
        raise IsaacLabImportError(f"{what} has {len(patterns)} patterns: {MOST} at most")
    owner: dict[str, str] = {}
    for pattern in patterns:
        try:
            found = [name for name in names if matches(pattern, name)]
        except PatternError as error:
            raise IsaacLabImportError(f"{what}: {error}") from None
        if not found:
            raise NoMatch(f"{what}: {pattern!r} matches none of the joints {', '.join(names)}")
        for name in found:
            if name in owner:
                raise IsaacLabImportError(f"{what}: {name!r} matches both {owner[name]!r} and {pattern!r}")
            owner[name] = pattern
    return owner
