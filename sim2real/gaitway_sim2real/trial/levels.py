"""Levels of a policy beside PASS and FAIL: what it can do although it fails. They decide nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Level:
    """A set of checks of required scenarios, all of which hold."""

    name: str
    about: str
    scenarios: tuple[str, ...] = ()
    """Names of scenarios; empty for all in which nothing is changed: those without a factor."""
    metrics: frozenset[str] = frozenset()
    """Metrics that count there; empty for all."""

    def holds(self, results: Iterable[Any]) -> bool:
        """True if there are such checks among ``results``, and all of them passed."""
        checks = [
            check
            for result in results
            if result.required and not result.engine and self._has(result)
            for check in result.checks
            if not self.metrics or check.metric.name in self.metrics
        ]
        return bool(checks) and all(check.passed for check in checks)

    def _has(self, result: Any) -> bool:
        return result.name in self.scenarios if self.scenarios else not result.factor


def level_of(levels: Sequence[Level], results: Sequence[Any]) -> str:
    """Name of the highest level that holds with all below it; empty if the lowest does not."""
    reached = ""
    for level in levels:
        if not level.holds(results):
            break
        reached = level.name
    return reached
