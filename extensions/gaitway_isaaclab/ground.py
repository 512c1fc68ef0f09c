"""Local ground plane, for machines that cannot reach the one on Isaac Lab's asset server."""

from __future__ import annotations

from pathlib import Path

from isaaclab.sim import GroundPlaneCfg
from isaaclab.terrains import TerrainImporter

GROUND = Path(__file__).with_name("ground.usda")
"""A plane at z = 0 that collides; Isaac Lab's spawner looks for a ``Plane``."""


class LocalGroundImporter(TerrainImporter):
    """Isaac Lab's importer with a plane of ours."""

    def import_ground_plane(self, name: str, size: tuple[float, float] = (2.0e6, 2.0e6)) -> None:
        prim_path = f"{self.cfg.prim_path}/{name}"
        self.terrain_prim_paths.append(prim_path)
        cfg = GroundPlaneCfg(usd_path=str(GROUND), physics_material=self.cfg.physics_material, size=size, color=None)
        cfg.func(prim_path, cfg)
