"""Paired comparisons: how rarely a difference is seen that is none, how surely one of two points is found."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from gaitway_sim2real.trial.paired import (
    EARLY,
    ERROR,
    POINTS,
    POWER,
    Pairs,
    compare,
    difference,
    early_looks,
    needed,
    quantile,
)

Outcomes = tuple[np.ndarray, np.ndarray]


def twins(discordant: float, points: float, seed: int) -> Callable[[range], Outcomes]:
    """Robots of which a share of (discordant +- points) / 2 survives under one policy only."""
    rng, better = np.random.default_rng(seed), (discordant + points) / 2

    def walk(numbers: range) -> Outcomes:
        drawn = rng.random(len(numbers))
        return drawn < better, (drawn >= better) & (drawn < discordant)

    return walk


def excludes_zero(pairs: Pairs) -> int:
    low, high = pairs.interval
    return int(low > 0) - int(high < 0)


@pytest.mark.parametrize("error", [EARLY, ERROR - 6 * EARLY, ERROR])
def test_equal_policies_differ_at_most_as_often_as_the_interval_says(error: float) -> None:
    z = quantile(error)
    for discordant in range(400):
        wins = np.arange(discordant + 1)
        chance = np.array([math.comb(discordant, k) for k in wins], object) / 2**discordant
        seen = [difference(int(k), discordant - int(k), 2000, z) for k in wins]
        wrong = np.array([low > 0 or high < 0 for low, high in seen])
        assert chance[wrong].sum() <= error


def test_the_interval_has_the_difference_in_it_and_turns_with_the_sides() -> None:
    low, high = difference(30, 10, 1000, quantile(ERROR))
    assert low < 0.02 < high
    assert difference(10, 30, 1000, quantile(ERROR)) == (-high, -low)
    assert difference(0, 0, 100, quantile(ERROR))[1] > 0.02, "no discordant pair is not certainty"


def test_more_pairs_are_needed_of_policies_that_differ_more_often() -> None:
    """n = (z sqrt(d) + z' sqrt(d - 0.02^2))^2 / 0.02^2, and a little for continuity."""
    z = quantile(ERROR)
    for share in (0.05, 0.1, 0.2):
        plain = ((z * math.sqrt(share) + 1.645 * math.sqrt(share - POINTS**2)) / POINTS) ** 2
        assert plain < needed(share, z) < 1.1 * plain + 60
    assert needed(0.0, z) == needed(POINTS, z)


@pytest.mark.parametrize("discordant", [0.03, 0.08])
def test_two_points_are_found_and_none_is_seldom_seen(discordant: float) -> None:
    comparisons = 400
    found = [excludes_zero(compare(twins(discordant, POINTS, seed), 4000)) for seed in range(comparisons)]
    assert np.mean(np.array(found) > 0) > POWER - 0.03
    alarms = [excludes_zero(compare(twins(discordant, 0.0, seed), 4000)) for seed in range(comparisons)]
    assert np.mean(np.array(alarms) != 0) <= ERROR + 0.02


def test_pairs_end_when_they_are_enough_or_beyond_doubt_and_at_the_most() -> None:
    enough = compare(twins(0.05, 0.0, 1), 4000)
    assert enough.needed <= enough.count < 4000
    assert enough.count % 100 == 0
    plain = compare(twins(0.3, 0.25, 1), 4000)
    assert plain.count in early_looks(4000)
    assert plain.count < plain.needed
    assert excludes_zero(plain) == 1
    assert plain.z == quantile(EARLY)
    few = compare(twins(0.3, 0.0, 1), 250)
    assert few.count == 250 < few.needed
    assert few.z == quantile(ERROR - len(early_looks(250)) * EARLY)
