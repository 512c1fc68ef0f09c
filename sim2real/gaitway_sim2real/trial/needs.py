"""Requirements of scenarios, limits and metrics on body, contract and commands, and what is left out without them.

A robot is judged on whatever its body has and its contract allows. Scenarios and limits name what they need,
``needs=("two feet",)`` for example, and a suite has a table of its needs by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gaitway_onboard.bundle.contract import Contract

from ..mujoco.plant import Plant


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Robot that is judged, as far as a need asks; a suite may have one with more facts."""

    contract: Contract
    plant: Plant


@dataclass(frozen=True)
class Need:
    """``holds`` tells whether it is there, ``why`` is what readers are told if it is not."""

    holds: Callable[[Any], bool]
    """Takes the suite's subject: :class:`Subject`, or its own."""
    why: str


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Item that was not judged, and the reason."""

    what: str
    """Title of a scenario, or of a metric."""
    why: str
    kind: str = "scenario"
    """``scenario``, ``limit`` (the metric is shown without one), ``metric``, or ``rung`` of a ladder of ground."""


def unmet(needs: Iterable[str], subject: Any, known: Mapping[str, Need]) -> str:
    """Reason why ``needs``, names of ``known``, are not met; empty if they are."""
    return ", and ".join(known[name].why for name in needs if not known[name].holds(subject))


def by_reason(rows: Sequence[LeftOut]) -> dict[str, list[str]]:
    """Items left out by reason, each named once."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.what not in found.setdefault(row.why, []):
            found[row.why].append(row.what)
    return found
