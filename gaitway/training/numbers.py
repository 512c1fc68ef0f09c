"""Numbers of evaluations and examinations, by the names that loggers show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from statistics import fmean, pstdev
from typing import Any

from ..runs.folder import EVALUATIONS, EXAMINATIONS

Row = Mapping[str, Any]


def numbers(file: str, row: Row) -> dict[str, float]:
    """Finite numbers of a row of ``file``, ``evaluations.jsonl`` or ``examinations.jsonl``."""
    return {name: float(value) for name, value in _OF[file](row) if value is not None and math.isfinite(value)}


def _of_evaluation(row: Row) -> Iterator[tuple[str, float | None]]:
    if row["returns"]:
        yield "evaluation/return", fmean(row["returns"])
        yield "evaluation/return_std", pstdev(row["returns"])
        yield "evaluation/length", fmean(row["lengths"])
        yield "evaluation/episodes", len(row["returns"])
        yield "evaluation/cut", len(row.get("cut", ()))
    if "falls" in row:
        yield "evaluation/falls", row["falls"]
    for command, errors in row.get("tracking", {}).items():
        for measure, value in errors.items():
            yield f"evaluation/tracking/{command}/{measure}", value
    for name, measure in row.get("measures", {}).items():
        yield f"evaluation/{name.replace(' ', '_')}", measure["value"]


def _of_examination(row: Row) -> Iterator[tuple[str, float | None]]:
    yield "examination/passed", row["passed"]
    yield "examination/closest", row["closest"]
    yield "examination/failed_checks", len(row["missing"])
    yield "examination/left_out", len(row["left_out"])
    margins: dict[str, float] = {}
    for check in row["checks"]:
        if check["value"] is not None:
            name, beyond = f"examination/margin/{check['scenario']}/{check['metric']}", check["value"] - check["limit"]
            margins[name] = min(margins.get(name, math.inf), beyond if check["at_least"] else -beyond)
    yield from margins.items()
    if "suite" in row:
        yield "suite/passed", row["suite"]["passed"]
        yield "suite/failed_checks", len(row["suite"]["failed"])


_OF: dict[str, Callable[[Row], Iterator[tuple[str, float | None]]]] = {
    EVALUATIONS: _of_evaluation,
    EXAMINATIONS: _of_examination,
}
