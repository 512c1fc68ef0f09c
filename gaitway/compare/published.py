"""Published scores that runs stand beside: one number, or points of a learning curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gaitway_files.errors import UserError

from .gather import Run

FORM = "NAME=SCORE, NAME=STEPS:SCORE,STEPS:SCORE or TASK=NAME=..."
SLACK = 1.01
"""How far beyond a run's end a point may lie: trainings end with a whole rollout, at slightly different steps."""


@dataclass(frozen=True)
class Published:
    """The scores of one source on one task."""

    task: str
    source: str
    points: tuple[tuple[float | None, float], ...]
    """Steps and score; no steps for the score at the end of a training, however long."""


def read_published(words: Sequence[str], tasks: Sequence[str]) -> list[Published]:
    """Scores of the form :data:`FORM`; raises :class:`UserError` for others, and for a task that has no runs."""
    return [_read(word, tasks) for word in words]


def reached(run: Run, steps: float | None) -> float:
    """A run's score at this number of steps, NaN if it is not there; None asks for its end."""
    if steps is None:
        return run.series.score
    end = run.series.end("steps")
    return float(run.series.curve(np.array([min(steps, end)]), "steps")[0]) if steps <= SLACK * end else math.nan


def _read(word: str, tasks: Sequence[str]) -> Published:
    *names, text = word.split("=")
    named = len(names) > 1 and names[0] in tasks
    task = names.pop(0) if named else tasks[0]
    source = "=".join(names).strip()
    if not source:
        raise UserError(f"--published {word}: write {FORM}")
    if not named and len(tasks) > 1:
        raise UserError(
            f"--published {word}: runs of {len(tasks)} tasks are compared, so begin with one, as in {tasks[0]}={word}"
        )
    return Published(task, source, tuple(_point(part, word) for part in text.split(",")))


def _point(part: str, word: str) -> tuple[float | None, float]:
    steps, colon, score = part.rpartition(":")
    try:
        found = float(steps) if colon else None, float(score)
    except ValueError:
        raise UserError(f"--published {word}: {part!r} is no number or STEPS:SCORE; write {FORM}") from None
    if not math.isfinite(found[1]) or (found[0] is not None and not 0.0 < found[0] < math.inf):
        raise UserError(f"--published {word}: {part!r} is not finite, or of no steps; write {FORM}")
    return found
