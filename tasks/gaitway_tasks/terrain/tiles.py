"""The ground of a training: rows of tiles of growing difficulty, among which environments move."""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gaitway_files.errors import UserError

from ..ground import Array, Ground
from .generator import TerrainGenerator
from .heights import interpolate

if TYPE_CHECKING:
    from torch import Tensor

MARGIN = 1.0
"""How far a tile goes on beyond its edge [m], for the legs of a robot whose base is on it."""
BASE = 0.5
"""Depth of the ground under its lowest point [m]."""
START = 1.0
"""Half the side of the square in the middle whose height is the origin's [m]."""


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
        raise UserError("Tiles have a height under an environment only: ask the ground of a world")

    def build(self, spec: Any) -> list[Any]:
        """One geom, and a height field for each tile; :meth:`under` writes their heights."""
        from mujoco import mjtGeom

        (low, high), (width, length) = self.range, self.margined[0].shape
        scale = self.generator.horizontal_scale
        size = [(width - 1) / 2 * scale, (length - 1) / 2 * scale, high - low, BASE]
        level = np.zeros(width * length).tolist()
        for number in range(len(self.margined)):
            spec.add_hfield(name=f"tile_{number}", nrow=length, ncol=width, size=size, userdata=level)
        return [spec.worldbody.add_geom(type=mjtGeom.mjGEOM_HFIELD, hfieldname="tile_0", pos=[0.0, 0.0, low])]

    def under(self, world: Any) -> Ground:
        return StandingOnTiles(self, world)

    @functools.cached_property
    def tiles(self) -> list[Any]:
        """All tiles, row by row."""
        return [tile for row in self.generator.tiles() for tile in row]

    @functools.cached_property
    def margined(self) -> list[np.ndarray]:
        """The heights of each tile and of a margin, in which it goes on as on its other side [m], x first."""
        cells = round(MARGIN / self.generator.horizontal_scale)
        return [np.pad(tile.heights[:-1, :-1], (cells, cells + 1), mode="wrap") for tile in self.tiles]

    @functools.cached_property
    def range(self) -> tuple[float, float]:
        """Lowest and highest ground of all tiles [m], which differ."""
        low = min(float(tile.heights.min()) for tile in self.tiles)
        return low, max(low + 1e-3, max(float(tile.heights.max()) for tile in self.tiles))


class StandingOnTiles(Ground):
    """The tile that each environment stands on. It repeats itself: who leaves it comes in on its other side.

    Each environment keeps its kind, a column; ``level`` is its row, which :meth:`move` changes.
    """

    def __init__(self, tiles: Tiles, world: Any) -> None:
        import torch

        self._torch, self._world, self.friction = torch, world, tiles.friction
        for name, scanner in world.task.height_scanners.items():
            if (far := math.hypot(*scanner.size) / 2) > MARGIN:
                raise UserError(
                    f"height scanner {name!r} looks {far:.2f} m far, and a tile goes on for {MARGIN:g} m beyond its "
                    f"edge: make task.height_scanners.{name}.size smaller"
                )
        generator, n = tiles.generator, world.num_envs
        self._rows, self._columns = generator.num_rows, generator.num_cols
        heights = np.stack(tiles.margined)
        self._digest = hashlib.sha256(heights.tobytes()).hexdigest()
        self._shape, self._points = heights.shape[1:], heights[0].size
        self._per_metre = 1.0 / generator.horizontal_scale
        self._span = [(points - 1) / self._per_metre for points in generator.grid.shape]
        self.tile_size = self._span[0]
        self._heights = torch.from_numpy(heights.astype(np.float32)).flatten()
        self._origin = torch.tensor([tile.origin for tile in tiles.tiles], dtype=torch.float32)
        self._easy = 1 + (self._rows - 1 if tiles.max_init_level is None else tiles.max_init_level)
        self.level = torch.zeros(n, dtype=torch.int64)
        """Row of the tile that each environment stands on, (N,)."""
        self._column = torch.arange(n) * self._columns // n
        self._moved = torch.zeros(n, 2)  # [m], how far each environment was moved when it left its tile
        self._geom = int(world.model.geom("ground").id)
        self._fill(tiles)
        self.begin()

    def _fill(self, tiles: Tiles) -> None:
        """Write all heights into the model: its compiler would stretch each field to its own lowest and highest."""
        low, high = tiles.range
        for number, heights in enumerate(tiles.margined):
            start = self._world.model.hfield_adr[number]
            self._world.model.hfield_data[start : start + heights.size] = ((heights - low) / (high - low)).T.ravel()

    # ---- what terms ask --------------------------------------------------------------------------------------------

    def height(self, xy: Tensor) -> Tensor:
        return self._at(xy[..., 0], xy[..., 1])

    def _at(self, x: Tensor, y: Tensor) -> Tensor:
        return self._look_up(x, y, self._first.reshape(-1, *[1] * (x.ndim - 1)))

    def _look_up(self, x: Tensor, y: Tensor, first: Tensor) -> Tensor:
        # Nothing is asked beyond the margin but by robots that were thrown far away within one control step.
        u, v = (
            (place * self._per_metre + (points - 1) / 2).clamp(0.0, points - 1.001)
            for place, points in zip((x, y), self._shape, strict=True)
        )
        return interpolate(self._heights, first, u, v, self._shape[1])

    def origin(self, env_ids: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        """The middle of each tile, or ``offset`` from it, on the ground; for who left it, where it was then."""
        tile, xy = self._tile[env_ids], offset - self._moved[env_ids]
        x, y = xy.unbind(1)
        place = self._look_up(x, y, tile * self._points)
        near = (xy + self._moved[env_ids]).abs().amax(1) <= START
        return self._torch.stack((x, y, self._torch.where(near, self._origin[tile], place)), 1)

    def move(self, env_ids: Tensor, up: Tensor, down: Tensor) -> None:
        """A row up or down, once these environments restart; who passes the last goes on in a row drawn at random."""
        level = self.level[env_ids] + up.long() - down.long()
        anywhere = self._torch.randint(0, self._rows, level.shape, generator=self._world.generator)
        self.level[env_ids] = self._torch.where(level >= self._rows, anywhere, level.clamp(min=0))
        self._find()

    # ---- what the world does ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.level = self._torch.randint(0, self._easy, self.level.shape, generator=self._world.generator)
        self._find()

    def restart(self, env_ids: Tensor) -> None:
        self._moved[env_ids] = 0.0
        self._world.batch.expand("geom_dataid")[env_ids.numpy(), self._geom] = self._tile[env_ids].numpy()

    def keep(self, position: Tensor) -> None:
        half = self._torch.tensor(self._span, dtype=position.dtype) / 2
        out = position.abs() > half
        if out.any():
            shift = 2 * half * position.sign() * out
            position -= shift
            self._moved += shift.float()

    def build(self, spec: Any) -> list[Any]:
        raise UserError("these tiles are built")

    def state_dict(self) -> dict[str, Any]:
        return {"level": self.level.clone(), "moved": self._moved.clone(), "heights": self._digest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state.get("heights") != self._digest:
            raise UserError(
                "the robots of the checkpoint stand on other tiles: continue with the task.ground that it was begun "
                "with, its generator.seed included"
            )
        moved = state["moved"].clone()
        self.level.copy_(state["level"])
        self._find()
        self.restart(self._torch.arange(len(self.level)))
        self._moved.copy_(moved)

    def _find(self) -> None:
        self._tile = self.level * self._columns + self._column
        self._first = self._tile * self._points
