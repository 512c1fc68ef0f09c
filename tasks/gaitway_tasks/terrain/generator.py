"""A grid of tiles that get harder from row to row, as Isaac Lab's generator lays it out."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gaitway_files.errors import UserError

from .kinds import KINDS, parameters
from .tile import Draws, Grid, TerrainError, Tile

MAX_TERRAIN_CELLS = 100_000_000
"""Most cells of all tiles and the border; Isaac Lab's rough terrain has four million."""

MARGIN = 1.0
"""Distance that a tile extends beyond its edge [m], for the legs of a robot whose base is on it."""


@dataclass(frozen=True, kw_only=True)
class SubTerrain:
    """One kind of tile, of :mod:`.kinds`; ``proportion`` is its share of the tiles, relative to the other kinds'."""

    kind: str
    proportion: float
    params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UserError(f"sub-terrain kind {self.kind!r}: use one of {', '.join(KINDS)}")
        if not self.proportion >= 0:
            raise UserError(f"sub-terrain proportion {self.proportion}: it is a share, at least 0")
        known = parameters(self.kind)
        for key, value in self.params.items():
            if key not in known:
                raise UserError(f"sub-terrain {self.kind!r} has no parameter {key!r}: it takes {', '.join(known)}")
            try:
                numbers = np.isfinite(np.asarray(value, float)).all()
            except (TypeError, ValueError):
                numbers = False
            if not numbers:
                raise UserError(f"sub-terrain {self.kind!r}: {key} is {value!r}: give numbers")
            if isinstance(known[key].annotation, str) and "Range" in known[key].annotation and np.shape(value) != (2,):
                raise UserError(f"sub-terrain {self.kind!r}: {key} is {value!r}: give the lowest and the highest")
        if missing := [
            n for n, each in known.items() if each.default is inspect.Parameter.empty and n not in self.params
        ]:
            raise UserError(f"sub-terrain {self.kind!r} lacks {', '.join(missing)}: give them in params")

    def tile(self, difficulty: float, grid: Grid, draws: Draws) -> Tile:
        """Raises :class:`TerrainError` for what does not fit on the tile."""
        found = KINDS[self.kind](difficulty, grid, draws, **self.params)
        if not np.isfinite(found.heights).all():
            raise TerrainError(f"sub-terrain {self.kind!r} has heights that are no numbers: check its params")
        return found


@dataclass(frozen=True, kw_only=True)
class TerrainGenerator:
    """A grid of square tiles, harder from row to row, one kind of sub-terrain per column. Lengths in m.

    ``slope_threshold`` [rise over run]: steeper faces of Isaac Lab's height fields become vertical. ``seed`` is that of
    all random heights; None lets Isaac Lab take its own, and is 0 elsewhere.
    """

    sub_terrains: Mapping[str, SubTerrain]
    size: tuple[float, float] = (8.0, 8.0)
    border_width: float = 20.0
    num_rows: int = 10
    num_cols: int = 20
    horizontal_scale: float = 0.1
    vertical_scale: float = 0.005
    slope_threshold: float | None = 0.75
    seed: int | None = None

    def __post_init__(self) -> None:
        if not any(sub.proportion > 0 for sub in self.sub_terrains.values()):
            raise UserError("a terrain generator needs a sub-terrain with a proportion above 0")
        lengths = [
            count * size + 2.0 * self.border_width
            for count, size in zip((self.num_rows, self.num_cols), self.size, strict=True)
        ]
        fine = self.horizontal_scale > 0.0 and self.vertical_scale > 0.0
        cells = math.prod(length / self.horizontal_scale for length in lengths) if fine else math.inf
        if not cells <= MAX_TERRAIN_CELLS:
            raise UserError(
                f"a terrain of {lengths[0]:g} x {lengths[1]:g} m in cells of {self.horizontal_scale:g} m: that are "
                f"{cells:.3g} cells, and {MAX_TERRAIN_CELLS:.0e} at most"
            )

    @property
    def grid(self) -> Grid:
        """The points of one tile."""
        return Grid(size=self.size, horizontal_scale=self.horizontal_scale, vertical_scale=self.vertical_scale)

    def columns(self) -> list[str]:
        """The sub-terrain of each column, by name."""
        names = list(self.sub_terrains)
        shares = np.array([sub.proportion for sub in self.sub_terrains.values()], float)
        reached = np.cumsum(shares / shares.sum())
        return [names[int(np.argmax(n / self.num_cols + 0.001 < reached))] for n in range(self.num_cols)]

    def tiles(self) -> list[list[Tile]]:
        """All tiles, ``[row][column]``; of R rows row r is drawn from difficulties r/R to (r + 1)/R.

        Draws follow one another as in Isaac Lab's curriculum, where generator, numpy and torch have the same seed.
        """
        seed = self.seed or 0
        chance, draws = np.random.default_rng(seed), Draws(seed)
        rows: list[list[Tile]] = [[] for _ in range(self.num_rows)]
        for name in self.columns():
            for number, row in enumerate(rows):
                difficulty = (number + chance.uniform()) / self.num_rows
                row.append(self.sub_terrains[name].tile(difficulty, self.grid, draws))
        return rows

    def laid(self) -> Laid:
        """All tiles, row by row, each with a margin in which it goes on as on its other side."""
        tiles = [tile for row in self.tiles() for tile in row]
        cells = round(MARGIN / self.horizontal_scale)
        heights = np.stack([np.pad(tile.heights[:-1, :-1], (cells, cells + 1), mode="wrap") for tile in tiles])
        low = float(heights.min())
        return Laid(
            heights=heights,
            origins=np.array([tile.origin for tile in tiles]),
            low=low,
            high=max(low + 1e-3, float(heights.max())),
        )


@dataclass(frozen=True, kw_only=True)
class Laid:
    """T tiles with their margins."""

    heights: np.ndarray
    """[m], x first, (T, X, Y)."""
    origins: np.ndarray
    """Height of the place in the middle where robots start [m], (T,)."""
    low: float
    """Lowest ground of all [m]."""
    high: float
    """Highest ground of all [m], above the lowest."""
