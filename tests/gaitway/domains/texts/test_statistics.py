"""Estimators of how well a model answers, against brute force and simulation."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaitway.domains.texts.statistics import bootstrap_mean, doublings, majority, mean_share, pass_at_k, wilson


@pytest.mark.parametrize("samples", [1, 2, 5, 8])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_answer(samples):
    for correct in range(samples + 1):
        right = [True] * correct + [False] * (samples - correct)
        for k in range(1, samples + 1):
            subsets = list(itertools.combinations(right, k))
            assert pass_at_k(samples, correct, k) == pytest.approx(np.mean([any(s) for s in subsets]))


def test_pass_at_k_is_unbiased_where_the_plug_in_estimate_is_not():
    rng, p, n, k = np.random.default_rng(0), 0.2, 10, 5
    counts = rng.binomial(n, p, size=20_000)
    truth = 1 - (1 - p) ** k
    assert np.mean([pass_at_k(n, int(c), k) for c in counts]) == pytest.approx(truth, abs=0.005)
    assert abs(np.mean(1 - (1 - counts / n) ** k) - truth) > 0.02


@pytest.mark.parametrize(("samples", "correct", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 5), (4, 2, 0)])
def test_pass_at_k_refuses_what_cannot_be(samples, correct, k):
    with pytest.raises(ValueError, match="pass@"):
        pass_at_k(samples, correct, k)


@given(st.integers(1, 2000), st.data())
def test_wilson_holds_the_share_and_stays_within_zero_and_one(trials, data):
    successes = data.draw(st.integers(0, trials))
    found = wilson(successes, trials)
    assert 0.0 <= found.low <= found.value == successes / trials <= found.high <= 1.0


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_is_what_tables_say(successes, trials, low, high):
    """Newcombe (1998), "Two-sided confidence intervals for the single proportion", table I, method 3."""
    found = wilson(successes, trials)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


def test_wilson_covers_the_truth_as_often_as_it_says():
    rng, p = np.random.default_rng(1), 0.95
    found = [wilson(int(c), 200) for c in rng.binomial(200, p, size=4000)]
    assert 0.93 < np.mean([m.low <= p <= m.high for m in found]) < 0.975


def test_bootstrap_interval_covers_the_mean_and_is_the_same_every_time():
    values = np.random.default_rng(2).normal(1.0, 2.0, size=400)
    found = bootstrap_mean(values)
    assert found.value == pytest.approx(values.mean())
    half = 1.96 * values.std() / 20
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.03)
    assert bootstrap_mean(values) == found
    with pytest.raises(ValueError, match="no values"):
        bootstrap_mean([])


def test_a_bootstrap_of_equal_shares_does_not_claim_certainty():
    assert mean_share([0.0] * 20) == wilson(0, 20)
    assert mean_share([1.0] * 20) == wilson(20, 20)
    assert mean_share([0.5, 1.0, 0.25] * 20) == bootstrap_mean([0.5, 1.0, 0.25] * 20)


def test_the_majority_wins_ties_are_drawn_and_silence_has_no_vote():
    assert majority(["9", "9", "8"], [True, True, False]) == 1.0
    assert majority(["8", "8", "9"], [False, False, True]) == 0.0
    assert majority(["8", "9"], [False, True]) == 0.5
    assert majority([None, None, "9"], [False, False, True]) == 1.0
    assert majority([None, None], [False, False]) == 0.0


@pytest.mark.parametrize(("samples", "expected"), [(1, [1]), (8, [1, 2, 4, 8]), (6, [1, 2, 4, 6])])
def test_the_ks_of_a_table(samples, expected):
    assert doublings(samples) == expected


def test_two_problems_have_no_interval_but_extremes():
    found = bootstrap_mean([0.25, 0.75])
    assert (found.value, found.low, found.high) == (0.5, 0.25, 0.75)
    assert found.percent() == "50.0 % (min 25.0, max 75.0)" and found.number() == "0.5 (min 0.25, max 0.75)"
    assert "[" in bootstrap_mean([0.25, 0.5, 0.75]).percent()
