"""The statistics of the diagnosis: which column is which, times what, plus what. numpy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

EXACT = 3e-4  # absolute below 1, relative above: float32 computed twice in different order
OUTLIERS = 0.01  # share of samples that may differ for a reason of their own, such as a command drawn in between
SIGMAS = 6.0  # a slope or offset further than this from 1 or 0 is no chance
MATERIAL = 0.03  # and must matter: this share of the slope, or of the spread of the column
BETTER = 0.9  # a permutation must leave less than this share of the residual variance


@dataclass(frozen=True, kw_only=True)
class Affine:
    """``found[:, c] = slope[c] * known[:, c] + offset[c]``, (C,) each."""

    slope: np.ndarray
    offset: np.ndarray
    slope_differs: np.ndarray  # bool, beyond chance
    offset_differs: np.ndarray  # bool
    residual: np.ndarray  # standard deviation


@dataclass(frozen=True, kw_only=True)
class ColumnFit(Affine):
    """Fit of each column by ``known[:, source[c]]``, with its residual and that of ``found = known``."""

    source: np.ndarray  # (C,) column of ``known``
    rms: float
    rms_as_is: float

    @property
    def reordered(self) -> bool:
        return not np.array_equal(self.source, np.arange(len(self.source)))


def is_equal(found: np.ndarray, known: np.ndarray) -> bool:
    """Equal to float precision in all but a few samples (M, C)."""
    error = np.abs(found - known) / np.maximum(1.0, np.abs(known))
    return bool((error.max(1) > EXACT).mean() <= OUTLIERS)


def rms(values: np.ndarray) -> float:
    """Root mean square without the largest :data:`OUTLIERS` of the rows (M, C)."""
    squares = np.sort((values**2).mean(1))
    return float(np.sqrt(squares[: max(1, round(len(squares) * (1 - OUTLIERS)))].mean()))


def assign(score: np.ndarray) -> np.ndarray:
    """Assignment of columns to rows, each once, that maximises the sum of ``score`` (n, n): Hungarian method."""
    n = len(score)
    cost = score.max() - score
    row_price, column_price = np.zeros(n + 1), np.zeros(n + 1)
    match, way = np.zeros(n + 1, int), np.zeros(n + 1, int)
    for row in range(1, n + 1):
        match[0], column = row, 0
        least, used = np.full(n + 1, np.inf), np.zeros(n + 1, bool)
        while True:
            used[column] = True
            reduced = cost[match[column] - 1] - row_price[match[column]] - column_price[1:]
            shorter = ~used[1:] & (reduced < least[1:])
            least[1:][shorter], way[1:][shorter] = reduced[shorter], column
            nearest = int(np.where(used[1:], np.inf, least[1:]).argmin()) + 1
            step = least[nearest]
            row_price[match[used]] += step
            column_price[used] -= step
            least[~used] -= step
            column = nearest
            if match[column] == 0:
                break
        while column:
            match[column], column = match[way[column]], way[column]
    result = np.zeros(n, int)
    result[match[1:] - 1] = np.arange(n)
    return result


def correlation(found: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Correlation of each column of ``found`` (M, C) with each of ``known`` (M, K); 0 where one is constant."""
    a, b = found - found.mean(0), known - known.mean(0)
    norms = np.linalg.norm(a, axis=0)[:, None] * np.linalg.norm(b, axis=0)[None]
    return np.where(norms > 1e-9 * len(a), a.T @ b / np.maximum(norms, 1e-12), 0.0)


def fit_columns(found: np.ndarray, known: np.ndarray, *, reorder: bool = True) -> ColumnFit:
    """Explain ``found`` by ``known`` (M, C): an order if that is clearly better, then slope and offset per column."""
    columns = found.shape[1]
    same = np.arange(columns)
    as_is = affine(found, known)
    best = as_is
    if reorder and columns > 1:
        related = np.abs(correlation(found, known))
        order = assign(related + 1e-3 * np.eye(columns))
        if not np.array_equal(order, same):
            moved = affine(found, known[:, order])
            spread = np.maximum(found.std(0), 1e-9)
            left, before = ((f.residual / spread) ** 2 for f in (moved, as_is))
            if left.mean() < BETTER * before.mean():
                best, same = moved, order
    fitted = found - (best.slope * known[:, same] + best.offset)
    return ColumnFit(**vars(best), source=same, rms=rms(fitted), rms_as_is=rms(found - known))


def affine(found: np.ndarray, known: np.ndarray) -> Affine:
    """Slope and offset per column (M, C); a slope that may be 1, or an offset that may be 0, is exactly that."""
    count = len(found)
    mean_f, mean_k = found.mean(0), known.mean(0)
    spread = known.std(0)
    moves = spread > 1e-6 * np.maximum(1.0, np.abs(mean_k))
    slope = np.where(moves, ((found - mean_f) * (known - mean_k)).mean(0) / np.maximum(spread, 1e-12) ** 2, 1.0)
    residual = (found - mean_f - slope * (known - mean_k)).std(0)
    error = residual / np.maximum(spread, 1e-12) / np.sqrt(count)
    differs = moves & (np.abs(slope - 1.0) > np.maximum(SIGMAS * error, MATERIAL))
    slope = np.where(differs, slope, 1.0)
    offset = mean_f - slope * mean_k
    residual = (found - slope * known - offset).std(0)
    chance = SIGMAS * (residual / np.sqrt(count) + np.where(differs, error * np.abs(mean_k), 0.0))
    shifted = np.abs(offset) > np.maximum(
        chance, np.maximum(MATERIAL * spread, EXACT * np.maximum(1.0, np.abs(mean_k)))
    )
    return Affine(
        slope=slope,
        offset=np.where(shifted, offset, 0.0),
        slope_differs=differs,
        offset_differs=shifted,
        residual=residual,
    )


def saturation(found: np.ndarray, known: np.ndarray) -> tuple[float, float] | None:
    """Bounds at which ``found`` (M, C) is cut off and ``known`` is not, or None.

    A plateau: many samples of exactly the extreme value, where ``known`` is beyond it.
    """
    bounds = []
    for sign in (-1.0, 1.0):
        extreme = float((sign * found).max())
        flat = sign * found >= extreme - 1e-6 * max(1.0, abs(extreme))
        beyond = sign * known > extreme + EXACT * max(1.0, abs(extreme))
        plateau = flat.sum() >= max(8, 0.002 * found.size) and (flat & beyond).sum() > 0.5 * flat.sum()
        bounds.append(sign * extreme if plateau else sign * np.inf)
    return None if np.isinf(bounds).all() else (bounds[0], bounds[1])


def is_white(series: np.ndarray, same_episode: np.ndarray) -> bool:
    """True if residuals (T, N, C) are white: correlation of neighbours in time below 0.2 in every column.

    ``same_episode`` (T - 1, N) says which neighbours belong together.
    """
    first, second = series[:-1][same_episode], series[1:][same_episode]
    first, second = first - first.mean(0), second - second.mean(0)
    norms = np.linalg.norm(first, axis=0) * np.linalg.norm(second, axis=0)
    correlations = np.where(norms > 1e-9, (first * second).sum(0) / np.maximum(norms, 1e-12), 0.0)
    return bool(np.abs(correlations).max() < 0.2)
