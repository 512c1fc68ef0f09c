"""The same scores, and where it draws the same resamples, into rliable and into ours: the same numbers.

rliable resamples with NumPy's global generator; its draws are recorded and replayed here.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from gaitway.compare import statistics
from gaitway.compare.statistics import estimate


@pytest.fixture(scope="module")
def rliable():
    """Its library and its metrics, with pandas 100 MB that only these tests need.

    rliable needs arch.bootstrap alone. Where arch's other parts fail beside a newer pandas, they are passed over.
    """
    if importlib.util.find_spec("rliable") is None:
        pytest.skip("rliable is not installed")
    try:
        from rliable import library, metrics
    except TypeError:
        spec = importlib.util.find_spec("arch")
        assert spec is not None and spec.submodule_search_locations is not None
        for name in [name for name in sys.modules if name.partition(".")[0] in ("arch", "rliable")]:
            del sys.modules[name]
        bare = types.ModuleType("arch")
        bare.__path__ = list(spec.submodule_search_locations)
        sys.modules["arch"] = bare
        from rliable import library, metrics
    return SimpleNamespace(library=library, metrics=metrics)


PAIRS = [
    (statistics.iqm, "aggregate_iqm"),
    (statistics.mean, "aggregate_mean"),
    (statistics.median, "aggregate_median"),
    (statistics.optimality_gap, "aggregate_optimality_gap"),
]
RNG = np.random.default_rng(0)
X, Y = RNG.normal(0.6, 0.5, (12, 4)), np.round(RNG.normal(0.4, 0.5, (10, 4)), 1)
THRESHOLDS = np.linspace(-1.0, 2.0, 31)


def by_task(matrix: np.ndarray) -> list[np.ndarray]:
    """rliable's (runs, tasks) as one array for each task."""
    return list(np.ascontiguousarray(matrix.T))


@pytest.fixture
def recorded(rliable, monkeypatch) -> Iterator[list]:
    """Indices of the runs of each resample that rliable draws, in order."""
    draws: list = []
    np.random.seed(0)
    for kind in (rliable.library.StratifiedBootstrap, rliable.library.StratifiedIndependentBootstrap):
        original = kind.update_indices

        def update(self, original=original):
            indices = original(self)
            both = indices[0] if isinstance(indices, list | tuple) and isinstance(indices[0], list) else [indices]
            draws.append([one[0] for one in both])
            return indices

        monkeypatch.setattr(kind, "update_indices", update)
    yield draws


def ours(draws: list) -> list[list[np.ndarray]]:
    """Recorded draws, per sample and task: (reps, runs)."""
    return [list(np.moveaxis(np.stack(sample), 2, 0)) for sample in zip(*draws, strict=True)]


@pytest.mark.parametrize(("mine", "theirs"), PAIRS)
@pytest.mark.parametrize("shape", [(3, 1), (5, 6), (10, 26), (8, 3)])
def test_aggregates(rliable, mine, theirs, shape):
    matrix = np.random.default_rng(shape).normal(0.7, 0.6, shape)
    assert mine(by_task(matrix)) == pytest.approx(getattr(rliable.metrics, theirs)(matrix), rel=1e-12)


@pytest.mark.parametrize(("mine", "theirs"), PAIRS)
def test_intervals_from_the_same_draws(rliable, mine, theirs, recorded):
    peer = getattr(rliable.metrics, theirs)
    values, intervals = rliable.library.get_interval_estimates({"x": X}, lambda x: np.array([peer(x)]), reps=400)
    found = estimate(mine, by_task(X), reps=400, indices=ours(recorded))
    assert len(recorded) == 400
    assert found.value == pytest.approx(values["x"][0], rel=1e-12)
    assert np.array([found.low, found.high]) == pytest.approx(intervals["x"][:, 0], rel=1e-12)


def test_probability_of_improvement_and_its_interval_from_the_same_draws(rliable, recorded):
    """With ties, and a different number of runs on either side."""
    values, intervals = rliable.library.get_interval_estimates(
        {"x, y": [X.round(1), Y]}, lambda x, y: np.array([rliable.metrics.probability_of_improvement(x, y)]), reps=200
    )
    samples = by_task(X.round(1)), by_task(Y)
    found = estimate(statistics.probability_of_improvement, *samples, reps=200, indices=ours(recorded))
    assert found.value == pytest.approx(values["x, y"][0], rel=1e-12)
    assert np.array([found.low, found.high]) == pytest.approx(intervals["x, y"][:, 0], rel=1e-12)


def test_performance_profiles_from_the_same_draws(rliable, recorded):
    values, intervals = rliable.library.create_performance_profile({"x": X}, THRESHOLDS, reps=300)

    def profile(x):
        return statistics.performance_profile(x, THRESHOLDS)

    found = estimate(profile, by_task(X), reps=300, indices=ours(recorded))
    assert found.value == pytest.approx(values["x"], abs=1e-12)
    assert np.stack([found.low, found.high]) == pytest.approx(intervals["x"], abs=1e-12)


def test_intervals_of_our_own_draws_differ_by_resampling_alone(rliable):
    """Two bootstraps of 4000 draws each: percentiles agree within a few per cent of the width."""
    np.random.seed(1)
    _, theirs = rliable.library.get_interval_estimates(
        {"x": X}, lambda x: np.array([rliable.metrics.aggregate_iqm(x)]), reps=4000
    )
    found = estimate(statistics.iqm, by_task(X), reps=4000)
    low, high = theirs["x"][:, 0]
    assert abs(found.low - low) < 0.05 * (high - low)
    assert abs(found.high - high) < 0.05 * (high - low)
