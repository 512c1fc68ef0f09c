"""Rough terrain as Isaac Lab generates it: a grid of tiles that get harder from row to row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gaitway_files.errors import UserError

from .ground import Array, Ground

MAX_TERRAIN_CELLS = 100_000_000
"""Most cells of all tiles and the border; Isaac Lab's rough terrain has four million."""
ISAAC_LAB = "Tiles are rough ground, which only Isaac Lab generates: use --world isaaclab"
SUB_TERRAINS = {
    "pyramid_stairs": ("step_height_range", "step_width", "platform_width", "border_width", "holes"),
    "inverted_pyramid_stairs": ("step_height_range", "step_width", "platform_width", "border_width", "holes"),
    "random_grid": ("grid_width", "grid_height_range", "platform_width"),
    "random_uniform": ("noise_range", "noise_step", "border_width"),
    "pyramid_slope": ("slope_range", "platform_width", "border_width"),
    "inverted_pyramid_slope": ("slope_range", "platform_width", "border_width"),
}
"""Kinds of sub-terrain and their parameters, named as in ``isaaclab.terrains`` [m]; slopes are rise over run."""


@dataclass(frozen=True, kw_only=True)
class SubTerrain:
    """One kind of tile; ``proportion`` is its share of the tiles, relative to the other kinds'."""

    kind: str
    proportion: float
    params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in SUB_TERRAINS:
            raise UserError(f"sub-terrain kind {self.kind!r}: use one of {', '.join(SUB_TERRAINS)}")
        if self.proportion < 0:
            raise UserError(f"sub-terrain proportion {self.proportion}: it is a share, at least 0")
        for key in self.params:
            if key not in SUB_TERRAINS[self.kind]:
                known = ", ".join(SUB_TERRAINS[self.kind])
                raise UserError(f"sub-terrain {self.kind!r} has no parameter {key!r}: it takes {known}")


@dataclass(frozen=True, kw_only=True)
class TerrainGenerator:
    """A grid of square tiles, harder from row to row, one kind of sub-terrain per column. Lengths in m.

    ``slope_threshold`` [rise over run]: steeper faces of height fields become vertical.
    """

    sub_terrains: Mapping[str, SubTerrain]
    size: tuple[float, float] = (8.0, 8.0)
    border_width: float = 20.0
    num_rows: int = 10
    num_cols: int = 20
    horizontal_scale: float = 0.1
    vertical_scale: float = 0.005
    slope_threshold: float | None = 0.75

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


@dataclass(frozen=True, kw_only=True)
class Tiles(Ground):
    """Tiles that Isaac Lab's generator makes; only that world has them, and knows their heights.

    ``max_init_level`` is the hardest row in which an environment may start; None means any.
    """

    generator: TerrainGenerator
    friction: float = 1.0
    max_init_level: int | None = 5

    def height(self, xy: Array) -> Array:
        raise UserError(ISAAC_LAB)

    def build(self, spec: Any) -> list[Any]:
        raise UserError(ISAAC_LAB)
