"""The statistics, on columns whose truth is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gaitway_sim2real.diagnose.actions import quat_of_gravity
from gaitway_sim2real.diagnose.fit import affine, assign, fit_columns, is_equal, is_white, saturation
from gaitway_sim2real.diagnose.history import HistoryLayout
from gaitway_sim2real.mujoco.delay import target_age

RNG = np.random.default_rng(0)


def test_assign_equals_brute_force() -> None:
    for _ in range(20):
        score = RNG.normal(size=(5, 5))
        best = max(itertools.permutations(range(5)), key=lambda order: sum(score[i, j] for i, j in enumerate(order)))
        np.testing.assert_array_equal(assign(score), best)


def test_order_slope_and_offset_through_noise() -> None:
    known = RNG.normal(size=(2000, 4)) * [1.0, 2.0, 0.5, 1.0]
    order, slope, offset = [2, 0, 1, 3], np.array([-1.0, 1.0, 3.0, 1.0]), np.array([0.0, 0.5, 0.0, 0.0])
    found = slope * known[:, order] + offset + 0.3 * RNG.uniform(-1, 1, size=known.shape)
    fit = fit_columns(found, known)
    np.testing.assert_array_equal(fit.source, order)
    np.testing.assert_allclose(fit.slope, slope, atol=0.1)
    np.testing.assert_allclose(fit.offset, offset, atol=0.05)
    np.testing.assert_array_equal(fit.slope_differs, [True, False, True, False])
    np.testing.assert_array_equal(fit.offset_differs, [False, True, False, False])
    assert fit.rms < 0.2 < fit.rms_as_is


def test_noise_alone_is_no_change() -> None:
    known = 0.1 * RNG.normal(size=(1500, 6))
    found = known + RNG.uniform(-1.5, 1.5, size=known.shape)
    fit = fit_columns(found, known)
    assert not fit.reordered and not fit.slope_differs.any() and not fit.offset_differs.any()


def test_constant_columns_keep_their_place() -> None:
    known = np.ones((100, 3))
    fit = fit_columns(known + np.array([0.0, 0.0, 0.5]), known)
    assert not fit.reordered
    np.testing.assert_allclose(fit.offset, [0.0, 0.0, 0.5])
    assert affine(known, known).slope.tolist() == [1.0, 1.0, 1.0]


def test_equal_but_for_a_few_rows() -> None:
    known = RNG.normal(size=(300, 2))
    found = known.copy()
    found[:2] += 1.0
    assert is_equal(found, known)
    found[:9] += 1.0
    assert not is_equal(found, known)


def test_saturation_needs_a_plateau_and_something_beyond_it() -> None:
    known = RNG.normal(size=(500, 3))
    assert saturation(np.clip(known, -0.7, 0.9), known) == pytest.approx((-0.7, 0.9))
    assert saturation(np.minimum(known, 0.9), known) == pytest.approx((-np.inf, 0.9))
    assert saturation(0.5 * known, known) is None
    assert saturation(np.zeros_like(known), np.zeros_like(known)) is None


def test_white_or_not() -> None:
    noise = RNG.normal(size=(200, 4, 3))
    together = np.full((199, 4), True)
    assert is_white(noise, together)
    assert not is_white(np.cumsum(noise, 0), together)


def test_gravity_has_a_quaternion_even_with_noise() -> None:
    gravity = np.array([0.1, -0.05, -1.0]) + RNG.uniform(0.0, 0.05, size=(50, 3))
    w, x, y, z = np.moveaxis(quat_of_gravity(gravity), -1, 0)
    again = np.stack((2 * (w * y - x * z), -2 * (y * z + w * x), 2 * (x * x + y * y) - 1), -1)
    np.testing.assert_allclose(again, gravity, atol=1e-9)


@pytest.mark.parametrize("oldest_first", [True, False])
@pytest.mark.parametrize("term_major", [True, False])
def test_layouts_hold_every_column_once(term_major: bool, oldest_first: bool) -> None:
    layout = HistoryLayout(length=3, term_major=term_major, oldest_first=oldest_first)
    columns = np.concatenate([layout.columns([2, 3], age) for age in range(3)])
    np.testing.assert_array_equal(np.sort(columns), np.arange(15))


def test_ages_of_targets() -> None:
    def target_ages(delay: int, decimation: int) -> list[int]:
        return [int(target_age(delay, step, decimation)) for step in range(decimation)]

    assert target_ages(0, 4) == [0, 0, 0, 0]
    assert target_ages(3, 4) == [1, 1, 1, 0]
    assert target_ages(4, 4) == [1, 1, 1, 1]
    assert target_ages(5, 4) == [2, 1, 1, 1]
