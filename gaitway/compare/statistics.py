"""Aggregates over tasks and runs with bootstrap intervals (Agarwal et al. 2021, "Deep Reinforcement Learning at the
Edge of the Statistical Precipice").

``Scores`` are one array for each task, shape (..., n): runs last. Tasks may have different numbers of runs; with equal
numbers every function equals that of rliable. Functions are vectorised over the leading axes, which is what makes the
bootstrap one call: resampled scores have shape (..., reps, n).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Scores = Sequence[Array]
LEVEL = 0.95
FEWEST = 3
"""Fewest runs of a task that have an interval."""
BLOCK = 2**22  # numbers resampled at a time, to bound memory


@dataclass(frozen=True)
class Estimate:
    """A statistic and the ends of its 95 % interval; the ends are NaN where a task has too few runs.

    With ``extremes`` a task has only two runs, and the ends are the statistic of each task's worst and best run.
    """

    value: Array
    low: Array
    high: Array
    extremes: bool = False


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

    Two runs of a task are too few for that: there the ends of a single sample's statistic are those of its extremes.
    Each sample is resampled on its own, within each task. ``indices`` gives the draws of each sample, in place of
    ``seed``.
    """
    if indices is None:
        rng = np.random.default_rng(seed)
        indices = [stratified_indices([x.shape[-1] for x in scores], reps, rng) for scores in samples]
    value = np.asarray(statistic(*samples))
    fewest = min(x.shape[-1] for scores in samples for x in scores)
    if fewest == 2 and len(samples) == 1:
        ends = [np.asarray(statistic([end(x, axis=-1, keepdims=True) for x in samples[0]])) for end in (np.min, np.max)]
        return Estimate(value, np.minimum(*ends), np.maximum(*ends), extremes=True)
    if fewest < FEWEST:
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
