"""The tiles under the environments of a world: which one each stands on, and how it moves among them.

The world holds one height field for each tile: ``lay_fields`` gets their heights, and ``choose_field`` which one is
under each environment.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import torch
from gaitway_files.errors import UserError
from torch import Tensor

from ..ground import Ground
from .generator import MARGIN, Laid, TerrainGenerator
from .heights import interpolate

FLOATS = (torch.float32, torch.float64)
START = 1.0
"""Half the side of the square in the middle whose height is the origin's [m]."""


class StandingOnTiles(Ground):
    """The tile that each environment stands on. It repeats itself: who leaves it comes in on its other side.

    Each environment keeps its kind, a column; ``level`` is its row, which :meth:`move` changes.
    """

    def __init__(self, generator: TerrainGenerator, laid: Laid, world: Any, *, rows: int, friction: float) -> None:
        """Environments start in the first ``rows``."""
        self._world, self.friction, self._easy = world, friction, rows
        for name, scanner in world.task.height_scanners.items():
            if (far := math.hypot(*scanner.size) / 2) > MARGIN:
                raise UserError(
                    f"height scanner {name!r} looks {far:.2f} m far, and a tile goes on for {MARGIN:g} m beyond its "
                    f"edge: make task.height_scanners.{name}.size smaller"
                )
        self._rows, self._columns = generator.num_rows, generator.num_cols
        self._digest = hashlib.sha256(laid.heights.tobytes()).hexdigest()
        self._shape, self._points = laid.heights.shape[1:], laid.heights[0].size
        self._per_metre = 1.0 / generator.horizontal_scale
        self._span = [(points - 1) / self._per_metre for points in generator.grid.shape]
        self.tile_size = self._span[0]
        device = world.device
        self._heights = torch.from_numpy(laid.heights.astype(np.float32)).flatten().to(device)
        self._origin = torch.from_numpy(laid.origins.astype(np.float32)).to(device)
        self.level = torch.zeros(world.num_envs, dtype=torch.int64, device=device)
        """Row of the tile that each environment stands on, (N,)."""
        self._column = torch.arange(world.num_envs, device=device) * self._columns // world.num_envs
        self._moved = torch.zeros(world.num_envs, 2, device=device)  # [m], of each when it left its tile
        self._half = {dtype: torch.tensor(self._span, dtype=dtype, device=device) / 2 for dtype in FLOATS}
        # All fields have one scale; a compiler would stretch each to its own lowest and highest.
        world.lay_fields((laid.heights - laid.low) / (laid.high - laid.low))
        self.begin()

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
        return torch.stack((x, y, torch.where(near, self._origin[tile], place)), 1)

    def move(self, env_ids: Tensor, up: Tensor, down: Tensor) -> None:
        """A row up or down, once these environments restart; who passes the last goes on in a row drawn at random."""
        level = self.level[env_ids] + up.long() - down.long()
        anywhere = torch.randint(0, self._rows, level.shape, generator=self._world.generator, device=level.device)
        self.level[env_ids] = torch.where(level >= self._rows, anywhere, level.clamp(min=0))
        self._find()

    # ---- what the world does ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.level.copy_(
            torch.randint(0, self._easy, self.level.shape, generator=self._world.generator, device=self.level.device)
        )
        self._find()

    def restart(self, env_ids: Tensor) -> None:
        self._moved[env_ids] = 0.0
        self._world.choose_field(env_ids, self._tile[env_ids])

    def keep(self, position: Tensor) -> None:
        half = self._half[position.dtype]
        shift = 2 * half * position.sign() * (position.abs() > half)
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
        self.restart(torch.arange(len(self.level), device=self.level.device))
        self._moved.copy_(moved)

    def _find(self) -> None:
        self._tile = self.level * self._columns + self._column
        self._first = self._tile * self._points
