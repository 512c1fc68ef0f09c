"""Published verdicts of a run's policies: how many policies were judged before one passed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.writing import open_to_append

from .files import disk_error
from .rows import read_rows

if TYPE_CHECKING:
    from gaitway_sim2real.validate import Verdict

JUDGEMENTS = "verdicts.jsonl"


def judgements(run: Path) -> list[dict[str, Any]]:
    """Rows of ``verdicts.jsonl``, one for each policy that ``gaitway validate`` judged, oldest first."""
    path = run / JUDGEMENTS
    return read_rows(path) if path.exists() else []


def note_verdict(run: Path, verdict: Verdict) -> int:
    """Record the verdict of a policy of ``run``; returns how many policies of the run were judged, this one included."""
    rows = judgements(run)
    policies = dict.fromkeys(row["policy_sha256"] for row in rows)
    row = {"policy_sha256": verdict.policy_sha256, "seed": verdict.seed, "verdict": verdict.word}
    row |= {"suite_version": verdict.suite_version, "failed": sorted({result.name for result, _ in verdict.failures()})}
    if row not in rows:
        path = run / JUDGEMENTS
        try:
            with open_to_append(path) as file:
                file.write(f"{json.dumps(row)}\n".encode())
        except OSError as error:
            raise disk_error(path, error) from None
    return len(policies | {verdict.policy_sha256: None})
