"""Choice of one checkpoint of a run: by its steps, the best by its examinations, the newest, or the run's own."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

from gaitway_files.errors import UserError

from ..errors import RunError
from .folder import EXAMINATIONS, RunFolder
from .rows import RunWarning, read_rows

BEST, LAST = "best", "last"
Which = int | str | None
"""Steps, as a number or in any spelling of :func:`read_which`; "best" or "last"; None for the run's own choice."""

NUMBER = re.compile(r"((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9][0-9_]*)(?:\.[0-9]+)?(?:e\+?[0-9]{1,2})?)([kM]?)")
UNITS = {"": 1, "k": 10**3, "M": 10**6}
MOST_STEPS = 10**15
SHOWN = 5
"""Steps that a message lists at most."""
VALIDATED = "validated"
"""Folder of a run with the bundle and the report of each checkpoint that was validated beside others."""
MOST_AT_ONCE = 12
"""Checkpoints that are validated without being named."""
SUITE_CPU_S = 190.0
"""CPU time of the suite for a typical robot, ANYmal C [s]."""


def read_which(given: int | str) -> int | str:
    """Steps, "best" or "last", from what was typed, for example "2000000", "2,000,000", "2_000_000", "2e6" or "2M".

    Raises :class:`UserError` for anything else.
    """
    text = str(given).strip()
    if text in (BEST, LAST):
        return text
    if found := NUMBER.fullmatch(text):
        steps = Decimal(found[1].replace(",", "").replace("_", "")) * UNITS[found[2]]
        if steps <= MOST_STEPS and not steps % 1:
            return int(steps)
    raise UserError(f"--checkpoint {text[:40]}: use a number of steps such as 2000000 or 2M, {BEST} or {LAST}")


def chosen(run: RunFolder) -> int | None:
    """Steps of the checkpoint that the run chose as its result; None if it chose none, or trains now.

    A run that trains is looked at while it learns: there the newest policy is wanted.
    """
    steps = run.record.get("chosen")
    return steps if isinstance(steps, int) and run.record["status"] != "running" else None


def settle(run: RunFolder, which: Which = None) -> int | None:
    """Steps of the checkpoint that is wanted, which was kept; None for the newest, also in a run that has none yet."""
    wanted = chosen(run) if which is None else read_which(which)
    kept = run.kept()
    if wanted is None or wanted == LAST or not kept:
        return None
    steps = _best_of(run, kept) if wanted == BEST else int(wanted)
    if steps in kept:
        return steps
    if which is None:
        warnings.warn(
            f"{run.path} chose its checkpoint of {steps:,} steps, which is gone: the newest is used instead",
            RunWarning,
            stacklevel=2,
        )
        return None
    near = sorted(sorted(kept, key=lambda other: abs(other - steps))[:SHOWN])
    raise RunError(
        f"--checkpoint {which}: {run.path} kept no checkpoint of {steps:,} steps; the nearest: {_listed(near)}"
    )


def note(run: RunFolder, which: Which, steps: int | None) -> str | None:
    """Line about the checkpoint that :func:`settle` found, if the user did not name it and it is not the newest."""
    if steps is None or which not in (None, BEST):
        return None
    if which == BEST:
        return f"checkpoint of {steps:,} steps, the best by its examinations"
    if steps == max(run.kept(), default=None):
        return None
    return f"checkpoint of {steps:,} steps, the one this run chose; --checkpoint {LAST} for the newest"


def several(run: RunFolder, named: Sequence[Which] = (), seeds: int = 1) -> list[int]:
    """Steps of the checkpoints to validate, oldest first: the ``named`` ones, or all that were kept."""
    if not (kept := run.kept()):
        raise RunError(f"{run.path} has no checkpoint yet: train it first")
    if named:
        found = [settle(run, which) for which in named]
        return sorted({max(kept) if steps is None else steps for steps in found})
    if len(kept) > MOST_AT_ONCE:
        cores = len(os.sched_getaffinity(0))
        minutes = math.ceil(len(kept) * seeds * SUITE_CPU_S / cores / 60)
        raise RunError(
            f"--checkpoint all: {run.path} kept {len(kept)} checkpoints, and their validation takes about {minutes} "
            f"minutes here; name some instead, for example --checkpoint {BEST} --checkpoint {max(kept)}"
        )
    return list(kept)


def _best_of(run: RunFolder, kept: Collection[int]) -> int:
    path = run.path / EXAMINATIONS
    rows = read_rows(path) if path.exists() else []
    if (steps := best(rows, kept)) is not None:
        return steps
    why = "kept no checkpoint that was examined" if rows else "was trained without examinations (--until good)"
    newest = sorted(kept)[-SHOWN:]
    others = f"{_listed(newest)}{', ...' if len(kept) > len(newest) else ''}"
    raise RunError(f"--checkpoint {BEST}: {run.path} {why}; use {LAST} or one of the steps {others}")


def _listed(steps: Sequence[int]) -> str:
    return ", ".join(f"{each:,}" for each in steps)


def best(rows: Sequence[Mapping[str, Any]], kept: Collection[int]) -> int | None:
    """Steps of the best of the ``kept`` checkpoints by ``rows`` of examinations; None if none was examined.

    Policies that passed the whole suite come first, the newest of them before the others. Then come those that passed
    their examination, by ``closest``, the largest share of its allowance that a check used. Then come the others, by
    the number of checks that failed, and by ``closest``. A scenario that was left out counts as a failed check: it was
    left out because others failed by far, and ``worst`` is the share of the checks that were made. The newest wins a
    tie.
    """
    found = [row for row in rows if isinstance(row.get("steps"), int) and row["steps"] in kept]
    examined = {row["steps"]: row for row in found}  # of two rows the later one
    return min(examined, key=lambda steps: (*_rank(examined[steps]), -steps), default=None)


def _rank(row: Mapping[str, Any]) -> tuple[int, int, float, float]:
    """Smaller is better: how it passed, number of failed checks, shares of the allowance."""
    if (row.get("suite") or {}).get("passed") is True:
        return 0, 0, 0.0, 0.0
    used = _share(row, "closest"), _share(row, "worst")
    if row.get("passed") is True:
        return 1, 0, *used
    return 2, len(row.get("missing") or ()) + len(row.get("left_out") or ()), *used


def _share(row: Mapping[str, Any], name: str) -> float:
    """Share of its allowance that a check used; infinite in rows that do not say, or were not measured."""
    value = row.get(name)
    return float(value) if isinstance(value, int | float) and not math.isnan(value) else math.inf
