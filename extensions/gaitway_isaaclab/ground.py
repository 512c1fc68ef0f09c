"""A ground plane of our own, for machines that do not reach the one on Isaac Lab's asset server."""

from __future__ import annotations

import os
from pathlib import Path

from isaaclab.sim import GroundPlaneCfg
from isaaclab.terrains import TerrainImporter

from .cache import cache_folder


class LocalGroundImporter(TerrainImporter):
    """Isaac Lab's importer with the plane from a file that is written here."""

    def import_ground_plane(self, name: str, size: tuple[float, float] = (2.0e6, 2.0e6)) -> None:
        prim_path = f"{self.cfg.prim_path}/{name}"
        self.terrain_prim_paths.append(prim_path)
        cfg = GroundPlaneCfg(
            usd_path=str(write_ground(cache_folder() / "ground.usda")),
            physics_material=self.cfg.physics_material,
            size=size,
            color=None,
        )
        cfg.func(prim_path, cfg)


def write_ground(path: Path) -> Path:
    """Write a plane at z = 0 that collides to ``path`` and return it; Isaac Lab's spawner looks for a ``Plane``."""
    from pxr import Usd, UsdGeom, UsdPhysics

    stage = Usd.Stage.CreateInMemory()
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    stage.SetDefaultPrim(UsdGeom.Xform.Define(stage, "/ground").GetPrim())
    plane = UsdGeom.Plane.Define(stage, "/ground/plane")
    plane.CreateAxisAttr("Z")
    UsdPhysics.CollisionAPI.Apply(plane.GetPrim())
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{os.getpid()}-{path.name}")
    stage.GetRootLayer().Export(str(temporary))
    temporary.replace(path)
    return path
