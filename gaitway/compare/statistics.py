"""Aggregates over tasks and runs with bootstrap intervals (Agarwal et al. 2021, "Deep Reinforcement Learning at the
Edge of the Statistical Precipice").

``Scores`` are one array for each task, shape (..., n): runs last. Tasks may have different numbers of runs; with equal
numbers every function equals that of rliable. Functions are vectorised over the leading axes, which is what makes the
bootstrap one call: resampled scores have shape (..., reps, n).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Scores = Sequence[Array]
LEVEL = 0.95
FEWEST = 10
"""Fewest runs of a task that have an interval: with fewer, a bootstrap is too narrow (benchmarks/seeds.py)."""
UNLIKELY = 0.05
"""Largest chance with which a difference counts as one."""
MOST_PAIRS = 10_000
"""Pairs up to which the chance is exact; beyond, it is that of a normal distribution."""
BLOCK = 2**22  # numbers resampled at a time, to bound memory


@dataclass(frozen=True)
class Estimate:
    """A statistic and the ends of its 95 % interval; the ends are NaN where a task has a single run.

    With ``extremes`` a task has too few runs for an interval, and the ends are the statistic of each task's worst and
    best run.
    """

    value: Array
    low: Array
    high: Array
    extremes: bool = False


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Each run of one side against each run of the other on the same task, over all tasks."""

    better: int
    equal: int
    count: int
    runs: tuple[int, int]
    """Fewest runs of a task, on either side."""
    chance: float
    """Probability of a result at least as clear, in either direction, if there is no difference."""

    @property
    def worse(self) -> int:
        return self.count - self.better - self.equal

    @property
    def different(self) -> bool:
        """True if chance alone is an unlikely reason."""
        return self.chance <= UNLIKELY

    def turned(self) -> Pairs:
        """The same pairs, seen from the other side."""
        return replace(self, better=self.worse, runs=(self.runs[1], self.runs[0]))

    def __str__(self) -> str:
        equal = f", equal in {self.equal}" if self.equal else ""
        return f"better in {self.better}{equal} of {self.count} pair{'' if self.count == 1 else 's'} of seeds"


def interquartile_mean(x: Array) -> Array:
    """Mean of the middle half along the last axis: a quarter of the values, rounded down, is cut off at either end."""
    n = x.shape[-1]
    cut = n // 4
    return np.sort(x, axis=-1)[..., cut : n - cut].mean(-1)


def iqm(scores: Scores) -> Array:
    """Interquartile mean of all runs of all tasks together."""
    return interquartile_mean(np.concatenate(scores, -1))


def mean(scores: Scores) -> Array:
    """Mean over tasks of the mean over runs."""
    return _task_means(scores).mean(-1)


def median(scores: Scores) -> Array:
    """Median over tasks of the mean over runs."""
    return np.asarray(np.median(_task_means(scores), axis=-1))


def optimality_gap(scores: Scores, target: float = 1.0) -> Array:
    """Mean amount by which runs miss ``target``; runs above it do not compensate for runs below it."""
    return target - mean([np.minimum(x, target) for x in scores])


def probability_of_improvement(x: Scores, y: Scores) -> Array:
    """P(X > Y) + P(X = Y) / 2 for a random run of either side on the same task, mean over tasks.

    0.5 says that neither is better; it is the Mann-Whitney U statistic over the number of pairs.
    """
    wins = []
    for a, b in zip(x, y, strict=True):
        left, right = a[..., :, None], b[..., None, :]
        wins.append((left > right).mean((-2, -1)) + 0.5 * (left == right).mean((-2, -1)))
    return np.asarray(np.mean(wins, axis=0))


def pairs(x: Scores, y: Scores) -> Pairs:
    """Pairs of runs of both sides on the same task, one array (n,) for each task; larger is better.

    The chance is that of the rank-sum test of Mann and Whitney (1947), two-sided, its sums added over the tasks. Ties
    count half and are rounded towards no difference.
    """
    better = sum(int((a[:, None] > b).sum()) for a, b in zip(x, y, strict=True))
    equal = sum(int((a[:, None] == b).sum()) for a, b in zip(x, y, strict=True))
    sizes = [(len(a), len(b)) for a, b in zip(x, y, strict=True)]
    count = sum(n * m for n, m in sizes)
    wins = better + equal / 2
    losses = count - max(wins, count - wins)
    return Pairs(
        better=better,
        equal=equal,
        count=count,
        runs=(min(n for n, _ in sizes), min(m for _, m in sizes)),
        chance=min(1.0, 2.0 * chance_of_fewer(sizes, math.ceil(losses) + 1)),
    )


def chance_of_fewer(sizes: Sequence[tuple[int, int]], wins: float) -> float:
    """Probability of fewer than ``wins`` won pairs if there is no difference; ``sizes`` are the runs of both sides."""
    count = sum(n * m for n, m in sizes)
    if count > MOST_PAIRS:
        spread = math.sqrt(sum(n * m * (n + m + 1) for n, m in sizes) / 12.0)
        return 0.5 * math.erfc((count / 2 - math.ceil(wins) + 0.5) / spread / math.sqrt(2.0))
    whole = np.ones(1)
    for n, m in sizes:
        whole = np.convolve(whole, _won_pairs(n, m))
    return float(whole[: max(0, math.ceil(wins))].sum())


def _won_pairs(n: int, m: int) -> Array:
    """Probabilities of 0 to n m won pairs if all orders of the n + m runs are equally likely, shape (n m + 1,).

    The largest run is one of the n, and wins m pairs, with probability n / (n + m):
    P(n, m, u) = n / (n + m) P(n - 1, m, u - m) + m / (n + m) P(n, m - 1, u)
    """
    row = [np.ones(1) for _ in range(m + 1)]
    for i in range(1, n + 1):
        row[0] = np.ones(1)
        for j in range(1, m + 1):
            found = np.zeros(i * j + 1)
            found[j:] = i / (i + j) * row[j]
            found[: i * (j - 1) + 1] += j / (i + j) * row[j - 1]
            row[j] = found
    return row[m]


def performance_profile(scores: Scores, thresholds: Array) -> Array:
    """Share of runs that score above each threshold, mean over tasks; shape (len(thresholds), ...)."""
    return np.mean([(x > thresholds.reshape(-1, *[1] * x.ndim)).mean(-1) for x in scores], axis=0)


def stratified_indices(counts: Sequence[int], reps: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Indices of the runs that ``reps`` resamples draw with replacement, by task: arrays of shape (reps, n)."""
    return [rng.integers(n, size=(reps, n)) for n in counts]


def estimate(
    statistic: Callable[..., Array],
    *samples: Scores,
    reps: int,
    seed: int = 0,
    indices: Sequence[Sequence[NDArray[Any]]] | None = None,
) -> Estimate:
    """``statistic(*samples)`` with its percentile interval over stratified resamples.

    Where a task has less than :data:`FEWEST` runs, there is no interval: the ends of a single sample's statistic are
    those of its extremes, and those of two samples NaN. Each sample is resampled on its own, within each task.
    ``indices`` gives the draws of each sample, in place of ``seed``.
    """
    if indices is None:
        rng = np.random.default_rng(seed)
        indices = [stratified_indices([x.shape[-1] for x in scores], reps, rng) for scores in samples]
    value = np.asarray(statistic(*samples))
    runs = min(x.shape[-1] for scores in samples for x in scores)
    if 1 < runs < FEWEST and len(samples) == 1:
        ends = [np.asarray(statistic([end(x, axis=-1, keepdims=True) for x in samples[0]])) for end in (np.min, np.max)]
        return Estimate(value, np.minimum(*ends), np.maximum(*ends), extremes=True)
    if runs < FEWEST:
        unknown = np.full(value.shape, np.nan)
        return Estimate(value, unknown, unknown)
    blocks = []
    widest = max(sum(x.size for x in scores) for scores in samples)
    for first in range(0, reps, step := max(1, BLOCK // max(1, widest))):
        resampled = [
            [x[..., draw[first : first + step]] for x, draw in zip(scores, draws, strict=True)]
            for scores, draws in zip(samples, indices, strict=True)
        ]
        blocks.append(statistic(*resampled))
    low, high = np.percentile(np.concatenate(blocks, -1), [50 * (1 - LEVEL), 50 * (1 + LEVEL)], axis=-1)
    return Estimate(value, np.asarray(low), np.asarray(high))


def _task_means(scores: Scores) -> Array:
    return np.stack([x.mean(-1) for x in scores], -1)
