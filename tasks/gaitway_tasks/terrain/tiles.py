"""The ground of a training: rows of tiles of growing difficulty."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from gaitway_files.errors import UserError

from ..ground import Array, Ground
from .generator import Laid, TerrainGenerator

BASE = 0.5
"""Depth of the ground under its lowest point [m]."""


@dataclass(frozen=True, kw_only=True)
class Tiles(Ground):
    """Tiles that a generator makes. Isaac Lab has them side by side; in MuJoCo each environment has its own.

    ``max_init_level`` is the hardest row in which an environment may start; None means any.
    """

    generator: TerrainGenerator
    friction: float = 1.0
    max_init_level: int | None = 5

    def __post_init__(self) -> None:
        level, rows = self.max_init_level, self.generator.num_rows
        if level is not None and not 0 <= level < rows:
            raise UserError(f"max_init_level {level}: there are the rows 0 to {rows - 1}")

    def height(self, xy: Array) -> Array:
        """Not known without a world: raises :class:`gaitway_files.errors.UserError`."""
        raise UserError("Tiles have a height under an environment only: ask the ground of a world")

    def build(self, spec: Any) -> list[Any]:
        """One geom, and a height field for each tile; :meth:`under` writes their heights."""
        from mujoco import mjtGeom

        laid, scale = self._laid, self.generator.horizontal_scale
        count, width, length = laid.heights.shape
        size = [(width - 1) / 2 * scale, (length - 1) / 2 * scale, laid.high - laid.low, BASE]
        level = np.zeros(width * length).tolist()
        for number in range(count):
            spec.add_hfield(name=f"tile_{number}", nrow=length, ncol=width, size=size, userdata=level)
        return [spec.worldbody.add_geom(type=mjtGeom.mjGEOM_HFIELD, hfieldname="tile_0", pos=[0.0, 0.0, laid.low])]

    def under(self, world: Any) -> Ground:
        """The tiles as they lie under the environments of ``world``."""
        from .standing import StandingOnTiles

        rows = self.generator.num_rows if self.max_init_level is None else self.max_init_level + 1
        return StandingOnTiles(self.generator, self._laid, world, rows=rows, friction=self.friction)

    @functools.cached_property
    def _laid(self) -> Laid:
        return self.generator.laid()
