"""Local ground plane, for machines that cannot reach the one on Isaac Lab's asset server."""

from __future__ import annotations

from pathlib import Path

from gaitway_files.writing import write_text
from isaaclab.sim import GroundPlaneCfg
from isaaclab.terrains import TerrainImporter

from .cache import cache_folder

GROUND = """#usda 1.0
(
    defaultPrim = "ground"
    metersPerUnit = 1
    upAxis = "Z"
)

def Xform "ground"
{
    def Plane "plane" (
        prepend apiSchemas = ["PhysicsCollisionAPI"]
    )
    {
        uniform token axis = "Z"
    }
}
"""


class LocalGroundImporter(TerrainImporter):
    """Isaac Lab's importer with a locally written plane."""

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
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_text(path, GROUND)
