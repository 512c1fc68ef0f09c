"""Statistics of a model's answers from samples, with intervals. Pure functions of numbers and texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from gaitway_files.errors import UserError

REPS = 2_000
"""Resamples of a bootstrap."""
FEWEST = 3
"""Fewest values that have an interval."""
Z = 1.959963984540054
"""Quantile of the standard normal distribution at 0.975, for 95 % intervals."""


@dataclass(frozen=True)
class Measure:
    """A number and the ends of its 95 % interval; with ``extremes``, the smallest and largest of too few values."""

    value: float
    low: float
    high: float
    extremes: bool = False

    def percent(self) -> str:
        """Percentage with its interval: ``84.2 % [81.0, 87.0]``."""
        return f"{100 * self.value:.1f} % {self._between(f'{100 * self.low:.1f}', f'{100 * self.high:.1f}')}"

    def number(self) -> str:
        """Number with its interval."""
        return f"{self.value:.3g} {self._between(f'{self.low:.3g}', f'{self.high:.3g}')}"

    def _between(self, low: str, high: str) -> str:
        return f"(min {low}, max {high})" if self.extremes else f"[{low}, {high}]"


def wilson(successes: int, trials: int) -> Measure:
    """A share with Wilson's score interval, which unlike the textbook's stays right near 0 and 1 (Wilson 1927)."""
    if not 0 <= successes <= trials or trials < 1:
        raise UserError(f"{successes} successes in {trials} trials: there is no such share")
    share, square = successes / trials, Z * Z / trials
    centre = (share + square / 2) / (1 + square)
    half = Z * math.sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)
    # At both ends the interval begins exactly at the share; rounding must not put it outside.
    return Measure(share, min(share, max(0.0, centre - half)), max(share, min(1.0, centre + half)))


def bootstrap_mean(values: Sequence[float], *, seed: int = 0) -> Measure:
    """The mean over problems with its percentile interval over resampled problems; of two, with the two."""
    if not len(values):
        raise UserError("the mean of no values")
    numbers = np.asarray(values, dtype=np.float64)
    if len(numbers) < FEWEST:
        return Measure(float(numbers.mean()), float(numbers.min()), float(numbers.max()), extremes=True)
    rng = np.random.default_rng(seed)
    # A block at a time, so that many problems need no array of problems times resamples.
    means = [numbers[rng.integers(len(numbers), size=(100, len(numbers)))].mean(1) for _ in range(REPS // 100)]
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return Measure(float(numbers.mean()), float(low), float(high))


def mean_share(shares: Sequence[float]) -> Measure:
    """The mean over problems of shares between 0 and 1.

    The interval is the bootstrap's or, where no problem differs from another at 0 or 1 and resampling would claim
    certainty, Wilson's.
    """
    first = shares[0] if len(shares) else 0.5
    if first in (0.0, 1.0) and all(share == first for share in shares):
        return wilson(int(first) * len(shares), len(shares))
    return bootstrap_mean(shares)


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Probability that one of ``k`` answers drawn from ``samples``, of which ``correct`` are right, is right.

    The unbiased estimator of Chen et al. (2021, "Evaluating Large Language Models Trained on Code").
    """
    if not 0 <= correct <= samples or not 1 <= k <= samples:
        raise UserError(f"pass@{k} of {samples} samples, {correct} correct: needs 1 <= k <= samples")
    if samples - correct < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(samples - correct + 1, samples + 1))


def majority(answers: Sequence[Hashable | None], correct: Sequence[bool]) -> float:
    """Probability that the answer given most often is right; equally frequent ones are drawn between.

    ``answers`` are in a form in which equal ones are equal; None gave none and has no vote (self-consistency, Wang et
    al. 2022). Of answers that count as equal and were judged differently, the share judged right counts.
    """
    votes = Counter(answer for answer in answers if answer is not None)
    if not votes:
        return 0.0
    most = max(votes.values())
    winners = [answer for answer, count in votes.items() if count == most]
    right = [
        sum(ok for answer, ok in zip(answers, correct, strict=True) if answer == winner) / most for winner in winners
    ]
    return sum(right) / len(right)


def doublings(samples: int) -> list[int]:
    """The k of a pass@k table: 1, 2, 4, ... and ``samples`` itself."""
    return sorted({2**power for power in range(samples.bit_length()) if 2**power <= samples} | {samples})
