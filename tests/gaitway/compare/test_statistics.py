"""Aggregates are what their definitions say, and intervals behave as intervals should."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gaitway.compare import statistics
from gaitway.compare.statistics import estimate

VALUES = st.floats(-1e3, 1e3, allow_nan=False, width=32)
AGGREGATES = (statistics.iqm, statistics.mean, statistics.median, statistics.optimality_gap)


@st.composite
def scores(draw, min_tasks=1):
    """One array for each task, with numbers of runs of their own."""
    counts = draw(st.lists(st.integers(1, 7), min_size=min_tasks, max_size=4))
    return [draw(arrays(np.float64, n, elements=VALUES)) for n in counts]


@given(arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 23)), elements=VALUES))
def test_iqm_is_the_trimmed_mean(x):
    assert statistics.interquartile_mean(x) == pytest.approx(scipy.stats.trim_mean(x, 0.25, axis=-1), abs=1e-9)


@given(scores())
def test_aggregates_by_their_definitions(x):
    means = [task.mean() for task in x]
    assert statistics.iqm(x) == pytest.approx(scipy.stats.trim_mean(np.concatenate(x), 0.25), abs=1e-9)
    assert statistics.mean(x) == pytest.approx(np.mean(means), abs=1e-9)
    assert statistics.median(x) == pytest.approx(np.median(means), abs=1e-9)
    gap = np.mean([np.mean([1.0 - min(value, 1.0) for value in task]) for task in x])
    assert statistics.optimality_gap(x) == pytest.approx(gap, abs=1e-9)


@given(scores(), st.data())
def test_probability_of_improvement_counts_pairs(x, data):
    y = [data.draw(arrays(np.float64, data.draw(st.integers(1, 5)), elements=VALUES)) for _ in x]
    counted = np.mean([np.mean([(a > b) + 0.5 * (a == b) for a in p for b in q]) for p, q in zip(x, y, strict=True)])
    found = statistics.probability_of_improvement(x, y)
    assert found == pytest.approx(counted)
    assert statistics.probability_of_improvement(y, x) == pytest.approx(1.0 - found)
    higher = [a + 2.5 for a in x]
    assert statistics.probability_of_improvement(higher, y) >= found


@given(scores())
def test_identical_runs_improve_on_each_other_half_of_the_time(x):
    assert statistics.probability_of_improvement(x, x) == pytest.approx(0.5)


def test_probability_of_improvement_looks_at_order_alone():
    x, y = [np.array([1.0, 5.0, 9.0])], [np.array([0.0, 4.0, 10.0])]
    found = statistics.probability_of_improvement(x, y)
    assert found == pytest.approx(5 / 9)
    assert statistics.probability_of_improvement([np.exp(x[0])], [np.exp(y[0])]) == found


@given(scores())
def test_profile_falls_from_one_to_zero(x):
    thresholds = np.linspace(-1001.0, 1001.0, 40)
    profile = statistics.performance_profile(x, thresholds)
    assert profile[0] == pytest.approx(1.0) and profile[-1] == 0.0
    assert (np.diff(profile) <= 1e-12).all()
    middle = statistics.performance_profile(x, np.array([0.0]))[0]
    assert middle == pytest.approx(np.mean([(task > 0).mean() for task in x]))


@pytest.mark.parametrize("statistic", AGGREGATES)
def test_resampling_many_at_once_equals_one_by_one(statistic):
    rng = np.random.default_rng(1)
    x = [rng.normal(size=n) for n in (10, 12, 11)]
    draws = statistics.stratified_indices([10, 12, 11], 50, rng)
    single = [statistic([task[i[k]] for task, i in zip(x, draws, strict=True)]) for k in range(50)]
    found = estimate(statistic, x, reps=50, indices=[draws])
    assert found.value == statistic(x)
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(single, [2.5, 97.5])))


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(2)
    x, y = ([rng.normal(size=11), rng.normal(size=10)] for _ in range(2))
    whole = estimate(statistics.probability_of_improvement, x, y, reps=101)
    monkeypatch.setattr(statistics, "BLOCK", 20)
    assert estimate(statistics.probability_of_improvement, x, y, reps=101) == whole


def test_draws_stay_within_their_task_and_are_uniform():
    draws = statistics.stratified_indices([2, 5], 4000, np.random.default_rng(0))
    for n, drawn in zip((2, 5), draws, strict=True):
        assert drawn.shape == (4000, n)
        assert np.bincount(drawn.ravel(), minlength=n) / drawn.size == pytest.approx(np.full(n, 1 / n), abs=0.02)


def test_the_same_seed_gives_the_same_interval_and_another_another():
    x = [np.random.default_rng(3).normal(size=10)]
    assert estimate(statistics.mean, x, reps=200) == estimate(statistics.mean, x, reps=200)
    assert estimate(statistics.mean, x, reps=200).low != estimate(statistics.mean, x, reps=200, seed=1).low


def test_interval_width_shrinks_with_the_root_of_the_number_of_runs():
    rng = np.random.default_rng(4)

    def width(n: int) -> float:
        found = [estimate(statistics.mean, [rng.normal(size=n)], reps=400, seed=k) for k in range(40)]
        return float(np.mean([one.high - one.low for one in found]))

    widths = [width(n) for n in (20, 80, 320)]
    assert widths[0] / widths[1] == pytest.approx(2.0, rel=0.1)
    assert widths[1] / widths[2] == pytest.approx(2.0, rel=0.1)
    assert widths[2] == pytest.approx(2 * 1.96 / np.sqrt(320), rel=0.1)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(5)
    found = [estimate(statistics.mean, [rng.normal(size=25), rng.normal(size=25)], reps=300) for _ in range(300)]
    covered = np.mean([one.low <= 0.0 <= one.high for one in found])
    assert 0.90 <= covered <= 0.98


def test_a_single_run_has_no_interval():
    one = estimate(statistics.iqm, [np.array([1.0, 2.0]), np.array([3.0])], reps=10)
    assert one.value == pytest.approx(2.0)
    assert np.isnan(one.low) and np.isnan(one.high)
    both = estimate(statistics.probability_of_improvement, [np.array([1.0])], [np.array([0.0, 2.0])], reps=10)
    assert both.value == 0.5 and np.isnan(both.low)


def test_few_runs_have_no_interval_but_extremes():
    scores = [np.array([1.0, 3.0]), np.array([5.0, 4.0, 6.0])]
    found = statistics.estimate(statistics.mean, scores, reps=50)
    assert (found.value, found.low, found.high, found.extremes) == (3.5, 2.5, 4.5, True)
    gap = statistics.estimate(statistics.optimality_gap, [np.array([0.2, 0.6])], reps=50)
    assert (float(gap.low), float(gap.high)) == pytest.approx((0.4, 0.8))
    chance = statistics.estimate(statistics.probability_of_improvement, scores, scores, reps=50)
    assert chance.value == 0.5 and np.isnan(chance.low) and np.isnan(chance.high)
    nine, ten = ([np.arange(float(n))] for n in (9, 10))
    few = statistics.estimate(statistics.iqm, nine, reps=50)
    assert (few.low, few.high, few.extremes) == (0.0, 8.0, True)
    assert np.isnan(statistics.estimate(statistics.probability_of_improvement, nine, ten, reps=50).low)
    enough = statistics.estimate(statistics.iqm, ten, reps=50)
    assert 0.0 < enough.low < enough.high < 9.0 and not enough.extremes


@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_the_chance_of_pairs_is_that_of_the_rank_sum_test(n, m, data):
    values = np.array(data.draw(st.permutations(range(n + m))), float)
    found = statistics.pairs([values[:n]], [values[n:]])
    theirs = scipy.stats.mannwhitneyu(values[:n], values[n:], method="exact")
    assert (found.better, found.equal, found.count) == (theirs.statistic, 0, n * m)
    assert found.chance == pytest.approx(theirs.pvalue)
    other = statistics.pairs([values[n:]], [values[:n]])
    turned = found.turned()
    assert (turned.better, turned.worse, turned.chance) == (other.better, other.worse, pytest.approx(other.chance))


@given(scores(), st.data())
def test_pairs_with_ties_and_tasks_lean_towards_no_difference(x, data):
    """The chance is that of all orders of the runs within their tasks, of which some are drawn."""
    y = [data.draw(arrays(np.float64, len(task), elements=VALUES)) for task in x]
    found = statistics.pairs(x, y)
    assert found.better + found.equal + found.worse == found.count == sum(len(task) ** 2 for task in x)
    share = (found.better + found.equal / 2) / found.count
    assert found.chance >= 0.999 if share == 0.5 else 0.0 < found.chance <= 1.0


def test_the_chance_of_several_tasks_is_that_of_shuffled_runs():
    rng = np.random.default_rng(0)
    x, y = [np.array([3.0, 5.0, 6.0]), np.array([2.0, 7.0])], [np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0])]
    found = statistics.pairs(x, y)
    wins = []
    for _ in range(20_000):
        mixed = [rng.permutation(len(a) + len(b)) for a, b in zip(x, y, strict=True)]
        wins.append(sum((m[: len(a), None] > m[len(a) :]).sum() for m, a in zip(mixed, x, strict=True)))
    distance = abs(found.better + found.equal / 2 - found.count / 2)
    assert found.chance == pytest.approx(np.mean(np.abs(np.array(wins) - found.count / 2) >= distance), abs=0.01)


def test_many_pairs_are_normal():
    x, y = np.arange(0.0, 120.0), np.arange(0.0, 240.0, 2.0) - 45.5
    theirs = scipy.stats.mannwhitneyu(x, y, method="exact").pvalue
    assert 0.001 < theirs < 0.5
    assert statistics.pairs([x], [y]).chance == pytest.approx(theirs, rel=0.05)


@pytest.mark.parametrize(("pairs", "words"), [
    (([2.0, 3.0], [1.0]), "better in 2 of 2 pairs of seeds"),
    (([2.0], [1.0]), "better in 1 of 1 pair of seeds"),
    (([2.0, 1.0, 0.0], [1.0]), "better in 1, equal in 1 of 3 pairs of seeds"),
])  # fmt: skip
def test_pairs_in_words(pairs, words):
    assert str(statistics.pairs(*([np.array(side)] for side in pairs))) == words
