"""Sub-terrains that Isaac Lab does not have, as meshes for its generator."""

from __future__ import annotations

from dataclasses import MISSING
from typing import TYPE_CHECKING, Any

import numpy as np
from gaitway_tasks.terrain import SubTerrain
from gaitway_tasks.terrain.tile import Draws, Grid
from isaaclab.terrains import SubTerrainBaseCfg
from isaaclab.utils import configclass

from . import compat

if TYPE_CHECKING:
    import trimesh


def boxes(difficulty: float, cfg: BoxesCfg) -> tuple[list[trimesh.Trimesh], np.ndarray]:
    """The boxes of a tile, whose corner is at (0, 0), and where robots start on it [m]."""
    import trimesh  # which imports SciPy, and configurations are made before the simulator is loaded

    sub = SubTerrain(kind=cfg.kind, proportion=1.0, params=cfg.params)
    tile = sub.tile(difficulty, Grid(size=cfg.size), Draws(0))  # kinds of ours draw nothing
    assert tile.boxes is not None
    corner, far = (tile.boxes[:, [end, 2 + end, 4 + end]] for end in (0, 1))
    middle = np.array([cfg.size[0] / 2, cfg.size[1] / 2, 0.0])
    meshes = [trimesh.creation.box(bounds=ends + middle) for ends in np.stack((corner, far), 1)]
    return meshes, middle + np.array([0.0, 0.0, tile.origin])


@configclass
class BoxesCfg(SubTerrainBaseCfg):
    """A kind of :mod:`gaitway_tasks.terrain.kinds` that is made of boxes."""

    function: Any = compat.class_type("gaitway_isaaclab.sub_terrains:boxes")
    kind: str = MISSING  # type: ignore[assignment]
    params: dict[str, Any] = MISSING  # type: ignore[assignment]
