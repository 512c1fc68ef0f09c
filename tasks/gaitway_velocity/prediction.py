"""What a verdict predicts: the share of unseen robots on which policies with such a verdict walked.

The evidence is ``prediction.json``, which ``benchmarks/calibration.py`` writes from policies and twins that neither the
suite nor the score was chosen on (docs/calibration.md).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

FILE = Path(__file__).with_name("prediction.json")


class Result(Protocol):
    """Interface of :class:`.ScenarioResult`."""

    @property
    def name(self) -> str: ...
    @property
    def metrics(self) -> dict[str, float]: ...


def score(results: Sequence[Result], names: Sequence[str]) -> float | None:
    """Mean share of falls over the scenarios with ``names``; None unless at least nine in ten of them were run."""
    found = [result.metrics.get("falls", np.nan) for result in results if result.name in set(names)]
    known = np.array(found)[np.isfinite(found)] if found else np.zeros(0)
    return float(known.mean()) if len(known) >= 0.9 * len(names) else None


def predicted(results: Sequence[Result]) -> list[str]:
    """A sentence for the verdict; none without evidence for such a result."""
    evidence: dict[str, Any] = json.loads(FILE.read_text())
    falls = score(results, evidence["scenarios"])
    if falls is None:
        return []
    row = next(row for row in evidence["bins"] if falls <= row["most_falls"])
    if row["policies"] < evidence["fewest_policies"]:
        return [
            f"not calibrated: {row['policies']} policies with so few and so many falls have walked on unseen robots, "
            f"and {evidence['fewest_policies']} are needed"
        ]
    low, high = (100 * end for end in row["interval"])
    return [
        f"on unseen robots, {row['policies']} policies with as many falls in this suite walked "
        f"{100 * row['survived']:.0f} % of their tours ({low:.0f} to {high:.0f} %; docs/calibration.md)"
    ]
