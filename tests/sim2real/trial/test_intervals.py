"""Intervals against tabulated values, and the limits that hold when they do."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from gaitway_sim2real.trial.intervals import Samples, mean_interval, pooled, student, wilson
from gaitway_sim2real.trial.result import LimitCheck
from gaitway_sim2real.trial.scenario import Limit
from gaitway_velocity.limits import FALLS_1, FALLS_5
from gaitway_velocity.metrics import METRICS
from gaitway_velocity.scenarios import SCENARIOS


def share(hits: int, trials: int) -> Samples:
    return Samples(values=np.repeat([1.0, 0.0], [hits, trials - hits]), kind="share")


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"), [(0, 64, 0.0, 0.04056), (8, 10, 0.5408, 0.9315), (10, 10, 0.7871, 1.0)]
)
def test_wilson(hits: int, trials: int, low: float, high: float) -> None:
    assert wilson(hits, trials) == pytest.approx((low, high), abs=1e-4)
    assert all(math.isnan(end) for end in wilson(0, 0))


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(3, 2.3534), (5, 2.0150), (10, 1.8125), (63, 1.6694), (1000, 1.6464)]
)
def test_student(freedom: int, quantile: float) -> None:
    assert student(freedom) == pytest.approx(quantile, rel=1e-3)


def test_mean_interval() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0])
    half = 2.3534 * np.std(values, ddof=1) / 2
    assert mean_interval(values) == pytest.approx((2.5 - half, 2.5 + half), rel=1e-3)
    assert all(math.isnan(end) for end in mean_interval(values[:1]))


def test_a_limit_holds_when_its_interval_does() -> None:
    assert LimitCheck.of(FALLS_5, share(0, 64), METRICS[FALLS_5.metric], 64).passed
    few = LimitCheck.of(FALLS_5, share(1, 64), METRICS[FALLS_5.metric], 64)
    assert not few.passed and few.undecided and few.margin > 0
    assert few.robots_needed == 109  # as long as 1 in 64 falls
    assert "undecided, 95 % certain is at most 6.7 %; about" in few.sentence()
    many = LimitCheck.of(FALLS_5, share(5, 64), METRICS[FALLS_5.metric], 64)
    assert not many.passed and not many.undecided and many.robots_needed is None
    fast = Limit(metric="lin_vel_error", value=1.0)
    spread = Samples(values=np.array([0.5, 1.4]), kind="mean")
    assert LimitCheck.of(fast, spread, METRICS[fast.metric], 2).undecided
    assert LimitCheck.of(
        fast, dataclasses.replace(spread, kind="level"), METRICS[fast.metric], 2
    ).passed  # no interval is known


def test_robots_are_enough_for_a_scenario_without_falls() -> None:
    assert not LimitCheck.of(FALLS_1, share(0, 128), METRICS[FALLS_1.metric], 128).passed
    for scenario in SCENARIOS:
        for limit in scenario.limits:
            if limit.metric == "falls":
                assert LimitCheck.of(limit, share(0, scenario.envs), METRICS[limit.metric], scenario.envs).passed, (
                    scenario.name
                )


def test_pooling_is_as_if_all_had_run_at_once() -> None:
    assert pooled([share(1, 10), share(0, 30)]).value == pytest.approx(1 / 40)
    peaks = [Samples(values=np.array([value]), kind="peak") for value in (0.4, 0.9)]
    assert pooled(peaks).value == 0.9
    assert math.isnan(Samples(values=np.zeros(0), kind="mean").value)
