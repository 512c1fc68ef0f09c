"""Intervals of measured numbers: Wilson intervals of shares, t intervals of means over robots.

Both are 90 % intervals of two sides, so that each end is a bound with 95 % certainty: a limit holds when the end that
is nearer to it does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

CERTAINTY = 0.95  # of one end
Kind = Literal["share", "mean", "level", "peak"]
Z = 1.6448536269514722  # quantile of the normal distribution at CERTAINTY
MOST_ROBOTS = 100_000  # numbers of robots beyond this are not worth telling


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Samples of one metric, in order of the robots."""

    values: np.ndarray
    """(K,), NaN where there was nothing to measure."""
    kind: Kind
    """``share``: each value is 0 or 1. ``mean``: one value per robot. ``level`` and ``peak``: one value per run of a
    scenario, of which the mean or the largest counts and no interval is known."""

    @property
    def known(self) -> np.ndarray:
        return self.values[np.isfinite(self.values)]

    @property
    def value(self) -> float:
        """The metric; NaN if nothing was measured."""
        known = self.known
        if not known.size:
            return math.nan
        return float(known.max() if self.kind == "peak" else known.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end; NaN where none is known."""
        known = self.known
        if self.kind == "share":
            return wilson(round(float(known.sum())), known.size)
        return mean_interval(known) if self.kind == "mean" else (math.nan, math.nan)

    def needed(self, limit: float, at_least: bool) -> int | None:
        """Number of such values that would decide about ``limit``; None if that is 100 000 or more."""
        known, value = self.known, self.value
        if self.kind not in ("share", "mean") or known.size < 2 or not (value > limit if at_least else value < limit):
            return None
        share = self.kind == "share"
        deviation = math.nan if share else float(known.std(ddof=1))

        def decides(n: int) -> bool:
            if share:
                low, high = wilson(value * n, n)
            else:
                half = student(n - 1) * deviation / math.sqrt(n)
                low, high = value - half, value + half
            return low >= limit if at_least else high <= limit

        few, many = 2, MOST_ROBOTS
        if not decides(many):
            return None
        while few < many:
            middle = (few + many) // 2
            few, many = (few, middle) if decides(middle) else (middle + 1, many)
        return many


def pooled(parts: Sequence[Samples]) -> Samples:
    """The samples of several runs of a scenario as those of one."""
    return Samples(values=np.concatenate([part.values for part in parts]), kind=parts[0].kind)


def wilson(hits: float, trials: int) -> tuple[float, float]:
    """Interval of a share of which ``hits`` of ``trials`` were seen; NaN without a trial.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
    """
    if not trials:
        return math.nan, math.nan
    share, z2 = hits / trials, Z * Z
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = Z * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2)) / (1 + z2 / trials)
    return max(0.0, centre - half), min(1.0, centre + half)


def mean_interval(values: np.ndarray, z: float = Z) -> tuple[float, float]:
    """Student's interval of the mean of independent values, (K,); NaN for fewer than two.

    ``z`` is as in :func:`student`.
    """
    if len(values) < 2:
        return math.nan, math.nan
    mean, half = float(values.mean()), student(len(values) - 1, z) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return mean - half, mean + half


def student(freedom: int, z: float = Z) -> float:
    """Quantile of Student's t, by its expansion in 1 / freedom (Abramowitz and Stegun, 26.7.5).

    ``z`` is the same quantile of the normal distribution. Right to 0.2 % from 3 degrees of freedom on.
    """
    v = float(freedom)
    terms = (
        (z**3 + z) / (4 * v),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3),
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * v**4),
    )
    return z + sum(terms)
