"""Two policies on the same robots: intervals of differences, and how many pairs of twins a comparison needs.

Pairs are walked in batches. The number of pairs depends only on the share of *discordant* pairs, those in which one of
the two policies survives: it is enough when a difference of :data:`POINTS` would be found with certainty :data:`POWER`.
That share says nothing about which policy is better, so looking at it costs no error. A comparison may also end early,
at the sizes of :func:`early_looks`, if the difference is beyond doubt; each of these looks uses up :data:`EARLY` of
:data:`ERROR`, and the last look uses the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

ERROR = 0.05
"""Chance that the interval of a survival difference misses the true one, over all looks; half of it on each side."""
EARLY = 0.001
"""Share of it that each early look uses up (J. L. Haybittle, 1971; R. Peto et al., 1976)."""
POINTS, POWER = 0.02, 0.95
BATCH = 100
"""Pairs between looks at the discordant share."""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Outcomes of two policies on the same N robots, and the quantile of their interval."""

    new: np.ndarray
    """(N,) bool"""
    old: np.ndarray
    """(N,) bool"""
    z: float

    @property
    def count(self) -> int:
        return len(self.new)

    @property
    def discordant(self) -> int:
        """Pairs that ended differently."""
        return int((self.new != self.old).sum())

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the difference new - old of the shares, -1 to 1."""
        return difference(int((self.new & ~self.old).sum()), int((self.old & ~self.new).sum()), self.count, self.z)

    @property
    def needed(self) -> int:
        """Pairs that would find a difference of :data:`POINTS`, at their discordant share."""
        return needed(self.discordant / self.count, self.z)


def quantile(error: float) -> float:
    """Quantile of the normal distribution that leaves half of ``error`` on each side."""
    return NormalDist().inv_cdf(1.0 - error / 2)


def difference(wins: int, losses: int, pairs: int, z: float) -> tuple[float, float]:
    """Interval of a difference of two paired shares, of which ``wins`` and ``losses`` pairs are discordant.

    D. G. Bonett and R. M. Price's of 2012, with a correction for continuity and without its term in the difference: it
    excludes 0 in at most the share of cases that ``z`` stands for, however many pairs are discordant.
    """
    half = 1.0 + z * math.sqrt(wins + losses + 2)
    return max(-1.0, (wins - losses - half) / (pairs + 2)), min(1.0, (wins - losses + half) / (pairs + 2))


def needed(discordant: float, z: float, points: float = POINTS, power: float = POWER) -> int:
    """Pairs after which :func:`difference` excludes 0 with certainty ``power``, if the true difference is ``points``.

    ``discordant`` is the share of discordant pairs; a smaller one than ``points`` is impossible then.
    """
    share, beta = max(discordant, points), NormalDist().inv_cdf(power)

    def enough(n: int) -> bool:
        spread = math.sqrt(n * (share - points**2))
        return n * points >= 1.0 + z * math.sqrt(n * share + 2) + beta * spread

    few, many = 1, 2
    while not enough(many):
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


def early_looks(most: int) -> tuple[int, ...]:
    """Numbers of pairs, 100, 200, 400, ... below ``most``, at which a comparison may end early."""
    return tuple(BATCH * 2**k for k in range(max(0, most.bit_length())) if BATCH * 2**k < most)


def compare(walk: Callable[[range], tuple[np.ndarray, np.ndarray]], most: int) -> Pairs:
    """Pairs in batches until they are enough, beyond doubt, or ``most``.

    ``walk`` gives the outcomes of both policies, new and old, on the robots of some numbers, (K,) bool each.
    """
    looks = early_looks(most)
    early, last = quantile(EARLY), quantile(ERROR - EARLY * len(looks))
    new, old = np.zeros(0, bool), np.zeros(0, bool)
    while True:
        parts = walk(range(len(new), min(len(new) + BATCH, most)))
        new, old = (np.concatenate(pair) for pair in zip((new, old), parts, strict=True))
        pairs = Pairs(new=new, old=old, z=last)
        if pairs.count >= min(most, pairs.needed):
            return pairs
        if pairs.count in looks:
            sure = Pairs(new=new, old=old, z=early)
            if not sure.interval[0] <= 0.0 <= sure.interval[1]:
                return sure
