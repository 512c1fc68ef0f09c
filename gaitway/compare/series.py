"""Series of a run: the rows of one metric, and the protocol that computes a score from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import RunError
from ..runs.folder import EPISODES, EVALUATIONS, EXAMINATIONS, METRICS
from ..runs.judgements import JUDGEMENTS
from ..runs.rows import parse_rows
from .statistics import Array

LAST_EPISODES = 100
LAST_SHARE = 0.1
EVALUATION, EVALUATION_MAX = "evaluation", "evaluation-max"
Axis = Literal["steps", "wall_s"]


class NothingToCompare(RunError):
    """A run without the numbers asked for; the message says which are missing."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Rows of one metric of a run in the order they were written, all arrays of shape (n,).

    A point of the curve is the mean of the last ``window`` values until then, or the largest so far for window 0, and
    the score is the last point: the right end of a curve is the number in the table.
    """

    steps: Array
    wall_s: Array
    values: Array
    window: int
    name: str
    protocol: str
    share: bool = False
    """The window is a share of the rows, :data:`LAST_SHARE`."""

    def until(self, steps: float) -> Series:
        """The series as it was after so many steps; raises :class:`NothingToCompare` if it had not begun."""
        seen = self.steps <= steps
        if not seen.any():
            raise NothingToCompare(f"it has no {self.name} in its first {steps:,.0f} steps")
        window = share_of(int(seen.sum())) if self.share else self.window
        return replace(self, steps=self.steps[seen], wall_s=self.wall_s[seen], values=self.values[seen], window=window)

    @property
    def score(self) -> float:
        return float(self._until(len(self.values)))

    def end(self, axis: Axis) -> float:
        return float(getattr(self, axis)[-1])

    def curve(self, x: Array, axis: Axis) -> Array:
        """The curve at positions ``x``, NaN before the first row."""
        counts = np.searchsorted(getattr(self, axis), x, side="right")
        return np.array([self._until(int(n)) if n else math.nan for n in counts])

    def _until(self, count: int) -> np.floating[Any]:
        first = max(count - self.window, 0) if self.window else 0
        values = self.values[first:count]
        return values.mean() if self.window else values.max()


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One evaluation during or after a run."""

    steps: int
    wall_s: float
    deterministic: bool
    returns: Array
    falls: int | None = None
    """Number of a robot's episodes that ended by a fall."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Mean distance of a robot from its commands by measure, of several commands also by the command's name."""

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def kind(self) -> tuple[int, bool, int]:
        """Steps, determinism and number of episodes: evaluations that may stand beside each other have the same."""
        return self.steps, self.deterministic, len(self.returns)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Judgements of a robot's policies: its examinations, and verdicts of the whole suite."""

    examined: bool | None = None
    """Whether the last examination was passed; None without one."""
    suite: bool | None = None
    """Whether a policy of the run passed the suite; None if none was judged."""


def read_series(run: Path, metric: str, evaluations: tuple[Evaluation, ...]) -> Series:
    """The rows of ``metric``."""
    if metric in (EVALUATION, EVALUATION_MAX):
        return evaluation_series(evaluations, best=metric == EVALUATION_MAX)
    if metric not in ("return", "length"):
        return _metric_series(run, metric)
    rows = _rows_of(run / EPISODES)
    if not rows:
        raise NothingToCompare(
            "no training episode was finished; --metric rollout/reward compares the mean rewards of steps, and "
            "--metric evaluation compares evaluations"
        )
    return _series(
        run / EPISODES,
        rows,
        metric,
        window=LAST_EPISODES,
        name={"return": "training return", "length": "training episode length"}[metric],
        protocol=f"mean of the last {LAST_EPISODES} training episodes",
    )


def read_evaluations(run: Path) -> tuple[Evaluation, ...]:
    """All evaluations of a run; none if it made none."""
    path = run / EVALUATIONS
    try:
        return tuple(
            Evaluation(
                steps=int(row["steps"]),
                wall_s=float(row["wall_s"]),
                deterministic=bool(row["deterministic"]),
                returns=np.array(row["returns"], dtype=np.float64),
                **_walking(row),
            )
            for row in _rows_of(path)
            if row["returns"]
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path.name} is damaged: {type(error).__name__}: {error}") from None


def read_judged(run: Path, until: float = math.inf) -> Judged:
    """Examinations of the first ``until`` steps; verdicts name no steps, and count only for a whole run."""
    verdicts = _rows_of(run / JUDGEMENTS) if until == math.inf else []
    try:
        examinations = [row for row in _rows_of(run / EXAMINATIONS) if float(row["steps"]) <= until]
        tried = [bool(row["suite"]["passed"]) for row in examinations if "suite" in row]
        tried += [row["verdict"] == "PASS" for row in verdicts]
        passed = [bool(row["passed"]) for row in examinations]
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{EXAMINATIONS} or {JUDGEMENTS} is damaged: {type(error).__name__}: {error}") from None
    return Judged(examined=passed[-1] if passed else None, suite=any(tried) if tried else None)


def _walking(row: dict[str, Any]) -> dict[str, Any]:
    """Tracking errors and falls of a robot's evaluation, as far as the row has them."""
    commands = {name: found for name, found in row.get("tracking", {}).items() if found}
    errors = {
        measure if len(commands) == 1 else f"{name} {measure}": float(value)
        for name, found in commands.items()
        for measure, value in found.items()
        if math.isfinite(value)
    }
    return ({"falls": int(row["falls"])} if "falls" in row else {}) | {"errors": errors}


def _rows_of(path: Path) -> list[dict[str, Any]]:
    return read_rows(path) if path.exists() else []


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON-lines file. The last one may have been cut short by a crash; any other must be whole."""
    if not path.exists():
        raise NothingToCompare(f"there is no {path.name}")
    found = parse_rows(path)
    if found.damaged:
        raise RunError(f"{path.name} is damaged: {found.damage}")
    return found.rows


def evaluation_series(evaluations: tuple[Evaluation, ...], *, best: bool) -> Series:
    """The mean returns of the evaluations; the score is the last, or the ``best``."""
    if not evaluations:
        raise NothingToCompare("no evaluation on record: train with evaluation_episodes=100")
    return Series(
        steps=np.array([e.steps for e in evaluations], float),
        wall_s=np.array([e.wall_s for e in evaluations], float),
        values=_finite(EVALUATION, [e.mean for e in evaluations]),
        window=0 if best else 1,
        name="evaluation return",
        protocol=f"largest evaluation of a run, {evaluation_kind(evaluations)}"
        if best
        else f"last evaluation of a run, {evaluation_kind(evaluations[-1:])}",
    )


def evaluation_kind(evaluations: Sequence[Evaluation]) -> str:
    """Kind of these evaluations, for example "deterministic, 100 episodes"."""
    kinds = dict.fromkeys("deterministic" if e.deterministic else "stochastic" for e in evaluations)
    counts = sorted({len(e.returns) for e in evaluations})
    span = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{' and '.join(kinds)}, {span} episode{'s' if counts[-1] > 1 else ''}"


def _metric_series(run: Path, key: str) -> Series:
    rows = [row for row in read_rows(run / METRICS) if key in row]
    if not rows:
        raise NothingToCompare(f"{METRICS} has no {key}")
    return _series(
        run / METRICS,
        rows,
        key,
        window=share_of(len(rows)),
        name=key,
        protocol=f"mean of {key} over the last {LAST_SHARE:.0%} of the iterations",
        share=True,
    )


def share_of(count: int) -> int:
    """The last rows over which a metric is averaged."""
    return max(1, round(LAST_SHARE * count))


def _series(path: Path, rows: list[dict[str, Any]], key: str, **about: Any) -> Series:
    try:
        steps, wall = (np.array([float(row[name]) for row in rows]) for name in ("steps", "wall_s"))
        values = _finite(key, [float(row[key]) for row in rows])
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, RunError):
            raise
        raise RunError(f"{path.name} is damaged: {type(error).__name__}: {error}") from None
    return Series(steps=steps, wall_s=wall, values=values, **about)


def _finite(key: str, values: list[float]) -> Array:
    array = np.array(values)
    if not np.isfinite(array).all():
        raise RunError(f"{key} is not finite in {int((~np.isfinite(array)).sum())} of {len(array)} rows")
    return array
