"""One tile of terrain: heights on a grid, and the boxes that it is made of, if it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from gaitway_files.errors import UserError

if TYPE_CHECKING:
    import torch

Size = tuple[float, float]
FOOT = 1.0
"""Depth of the boxes below the lowest ground of a tile [m]."""


class TerrainError(UserError):
    """Terrain that cannot be made, with the reason and the fix."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The points of a tile: ``size`` [m], their distance [m], and the unit of height of a height field [m]."""

    size: Size
    horizontal_scale: float = 0.1
    vertical_scale: float = 0.005

    @property
    def shape(self) -> tuple[int, int]:
        """Points along x and y, both ends included."""
        return (int(self.size[0] / self.horizontal_scale) + 1, int(self.size[1] / self.horizontal_scale) + 1)

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """x and y of the points from the tile's middle [m], (X,) and (Y,)."""
        x, y = ((np.arange(n) - (n - 1) / 2) * self.horizontal_scale for n in self.shape)
        return x, y


class Draws:
    """Random numbers of tiles, from the sources that Isaac Lab draws them from, seeded as these."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.numpy = np.random.RandomState(seed)

    @cached_property
    def torch(self) -> torch.Generator:
        import torch

        return torch.Generator().manual_seed(self._seed)

    def uniform(self, low: float, high: float, count: int) -> np.ndarray:
        """Uniform draws of torch, float32, (count,)."""
        import torch

        return torch.zeros((count, 3))[:, 2].uniform_(low, high, generator=self.torch).numpy()


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A square of ground around its middle, (0, 0). Heights are relative to its edge, which is at 0."""

    grid: Grid
    heights: np.ndarray
    """At the points of the grid, x first [m], (X, Y)."""
    origin: float
    """Height of the place in the middle where robots start [m]."""
    boxes: np.ndarray | None = None
    """Low x, high x, low y, high y, bottom and top of its boxes [m], (B, 6); None for a height field."""

    @classmethod
    def of_heights(cls, grid: Grid, heights: np.ndarray, origin: float) -> Tile:
        return cls(grid=grid, heights=heights, origin=origin)

    @classmethod
    def of_boxes(cls, grid: Grid, boxes: Sequence[Sequence[float]] | np.ndarray, origin: float) -> Tile:
        """A tile that is exactly ``boxes``; the grid has the highest top at each of its points."""
        found = np.asarray(boxes, float)
        return cls(grid=grid, heights=tops(found, *grid.points()), origin=origin, boxes=found)


def tops(boxes: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Highest top of ``boxes`` (B, 6) at the points of a grid, edges included, (X, Y); the lowest bottom elsewhere."""
    found = np.full((len(x), len(y)), float(boxes[:, 4].min()))
    for low_x, high_x, low_y, high_y, _, top in boxes:
        first, last = np.searchsorted(x, low_x - 1e-9), np.searchsorted(x, high_x + 1e-9)
        left, right = np.searchsorted(y, low_y - 1e-9), np.searchsorted(y, high_y + 1e-9)
        part = found[first:last, left:right]
        np.maximum(part, top, out=part)
    return found


def frame(outer: Size, inner: Size, bottom: float, top: float) -> list[list[float]]:
    """Four boxes around a hole of the size ``inner`` in the middle."""
    (ax, ay), (bx, by) = (np.asarray(outer) / 2).tolist(), (np.asarray(inner) / 2).tolist()
    return [
        [-ax, ax, by, ay, bottom, top],
        [-ax, ax, -ay, -by, bottom, top],
        [bx, ax, -by, by, bottom, top],
        [-ax, -bx, -by, by, bottom, top],
    ]


def block(size: Size, bottom: float, top: float) -> list[float]:
    """A box in the middle."""
    return [-size[0] / 2, size[0] / 2, -size[1] / 2, size[1] / 2, bottom, top]
