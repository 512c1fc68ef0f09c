"""Published verdicts of a run's policies: how many policies were judged before one passed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.writing import open_to_append

from .files import disk_error
from .rows import read_rows

if TYPE_CHECKING:
    from gaitway_sim2real.trial import Verdict

JUDGEMENTS = "verdicts.jsonl"


def policies_judged(run: Path) -> int:
    """Number of the run's policies that have a published verdict."""
    return len({row["policy_sha256"] for row in _rows(run)})


def note_verdict(run: Path, verdict: Verdict) -> None:
    """Record the verdict of a policy of ``run``, once."""
    row = {"policy_sha256": verdict.policy_sha256, "seed": verdict.seed, "verdict": verdict.word}
    row |= {"suite_version": verdict.suite_version, "failed": sorted({result.name for result, _ in verdict.failures()})}
    if row in _rows(run):
        return
    path = run / JUDGEMENTS
    try:
        with open_to_append(path) as file:
            file.write(f"{json.dumps(row)}\n".encode())
    except OSError as error:
        raise disk_error(path, error) from None


def _rows(run: Path) -> list[dict[str, Any]]:
    path = run / JUDGEMENTS
    return read_rows(path) if path.exists() else []
