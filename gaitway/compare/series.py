"""Series of a run: the rows of one metric, and the protocol that computes a score from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import RunError
from ..runs.folder import EPISODES, EVALUATIONS, METRICS
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
    falls: float | None = None
    """Share of a robot's episodes that ended by a fall."""
    linear: float | None = None
    """Mean distance of a robot from its first command [m/s]; :attr:`yaw` [rad/s]."""
    yaw: float | None = None

    @property
    def mean(self) -> float:
        return float(self.returns.mean())


def read_series(run: Path, metric: str, evaluations: tuple[Evaluation, ...]) -> Series:
    """The rows of ``metric``."""
    if metric in (EVALUATION, EVALUATION_MAX):
        return _evaluation_series(evaluations, best=metric == EVALUATION_MAX)
    if metric not in ("return", "length"):
        return _metric_series(run, metric)
    rows = read_rows(run / EPISODES) if (run / EPISODES).exists() else []
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
            for row in (read_rows(path) if path.exists() else [])
            if row["returns"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path.name} is damaged: {type(error).__name__}: {error}") from None


def _walking(row: dict[str, Any]) -> dict[str, float]:
    """Tracking errors and falls of a robot's evaluation, as far as the row has them."""
    errors: dict[str, float] = next((found for found in row.get("tracking", {}).values() if found), {})
    falls = {"falls": float(row["falls"]) / len(row["returns"])} if "falls" in row else {}
    return falls | {name: float(errors[name]) for name in ("linear", "yaw") if name in errors}


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON-lines file. The last one may have been cut short by a crash; any other must be whole."""
    if not path.exists():
        raise NothingToCompare(f"there is no {path.name}")
    found = parse_rows(path)
    if found.damaged:
        raise RunError(f"{path.name} is damaged: {found.damage}")
    return found.rows


def _evaluation_series(evaluations: tuple[Evaluation, ...], *, best: bool) -> Series:
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
        window=max(1, round(LAST_SHARE * len(rows))),
        name=key,
        protocol=f"mean of {key} over the last {LAST_SHARE:.0%} of the iterations",
    )


def _series(path: Path, rows: list[dict[str, Any]], key: str, *, window: int, name: str, protocol: str) -> Series:
    try:
        steps, wall = (np.array([float(row[name]) for row in rows]) for name in ("steps", "wall_s"))
        values = _finite(key, [float(row[key]) for row in rows])
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, RunError):
            raise
        raise RunError(f"{path.name} is damaged: {type(error).__name__}: {error}") from None
    return Series(steps=steps, wall_s=wall, values=values, window=window, name=name, protocol=protocol)


def _finite(key: str, values: list[float]) -> Array:
    array = np.array(values)
    if not np.isfinite(array).all():
        raise RunError(f"{key} is not finite in {int((~np.isfinite(array)).sum())} of {len(array)} rows")
    return array
