"""Ground, robot and sensors of a task as Isaac Lab's scene."""

from __future__ import annotations

from dataclasses import MISSING
from typing import Any

import isaaclab.sim as sim_utils
import isaaclab.terrains as terrain_gen
from gaitway_tasks.ground import Ground
from gaitway_tasks.spec import HeightScanner, Task
from gaitway_tasks.terrain import SubTerrain, TerrainGenerator, Tiles
from isaaclab.assets import ArticulationCfg, AssetBaseCfg
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.sensors import ContactSensorCfg, RayCasterCfg, patterns
from isaaclab.terrains import TerrainGeneratorCfg, TerrainImporterCfg
from isaaclab.utils import configclass
from isaaclab.utils.assets import ISAAC_NUCLEUS_DIR, ISAACLAB_NUCLEUS_DIR

from . import compat
from .assets import robot_cfg
from .declared import declared
from .sub_terrains import BoxesCfg

SUB_TERRAINS = {
    "flat": terrain_gen.MeshPlaneTerrainCfg,
    "pyramid_stairs": terrain_gen.MeshPyramidStairsTerrainCfg,
    "inverted_pyramid_stairs": terrain_gen.MeshInvertedPyramidStairsTerrainCfg,
    "random_grid": terrain_gen.MeshRandomGridTerrainCfg,
    "random_uniform": terrain_gen.HfRandomUniformTerrainCfg,
    "pyramid_slope": terrain_gen.HfPyramidSlopedTerrainCfg,
    "inverted_pyramid_slope": terrain_gen.HfInvertedPyramidSlopedTerrainCfg,
    "wave": terrain_gen.HfWaveTerrainCfg,
    "discrete_obstacles": terrain_gen.HfDiscreteObstaclesTerrainCfg,
    "stepping_stones": terrain_gen.HfSteppingStonesTerrainCfg,
    "gap": terrain_gen.MeshGapTerrainCfg,
}
"""Isaac Lab's own; other kinds are :class:`.sub_terrains.BoxesCfg`."""
TILES = (
    f"{ISAACLAB_NUCLEUS_DIR}/Materials/TilesMarbleSpiderWhiteBrickBondHoned/TilesMarbleSpiderWhiteBrickBondHoned.mdl"
)
SKY = f"{ISAAC_NUCLEUS_DIR}/Materials/Textures/Skies/PolyHaven/kloofendal_43d_clear_puresky_4k.hdr"


@configclass
class SceneCfg(InteractiveSceneCfg):
    """Scene of a task without height scanners."""

    terrain: TerrainImporterCfg = MISSING
    robot: ArticulationCfg = MISSING
    contact_forces: Any = MISSING
    sky_light: AssetBaseCfg = MISSING


def scene_class(task: Task) -> type[SceneCfg]:
    """The class of the scenes of ``task``, with a field for each height scanner, of its name."""
    scanners = {
        name: scanner_cfg(scanner, scanner.body or task.robot.base_name, task.timing.step_dt)
        for name, scanner in task.height_scanners.items()
    }
    return type(declared("SceneCfg", scanners, SceneCfg))


def scene_cfg(cls: type[SceneCfg], task: Task, num_envs: int, asset: str, actuators: str) -> SceneCfg:
    """The scene of class ``cls``; materials from Isaac Lab's asset server only if the robot comes from there too."""
    timing, textured = task.timing, asset == "nucleus"
    return cls(
        num_envs=num_envs,
        env_spacing=2.5,
        terrain=terrain_cfg(task.ground, bool(task.curriculum), textured),
        robot=robot_cfg(task, asset, actuators),
        contact_forces=ContactSensorCfg(
            prim_path="{ENV_REGEX_NS}/Robot/.*", history_length=3, track_air_time=True, update_period=timing.physics_dt
        ),
        sky_light=AssetBaseCfg(
            prim_path="/World/skyLight",
            spawn=sim_utils.DomeLightCfg(intensity=750.0, texture_file=SKY if textured else None),
        ),
    )


def terrain_cfg(ground: Ground, curriculum: bool, textured: bool) -> Any:
    """``TerrainImporterCfg``: a plane, or the generator's tiles, sorted by difficulty when a curriculum climbs them.

    Without ``textured`` nothing in it is fetched from Isaac Lab's asset server.
    """
    tiles = ground if isinstance(ground, Tiles) else None
    if not (tiles or ground.flat):
        raise compat.IsaacLabError(f"ground {type(ground).__name__}: Isaac Lab has Plane and Tiles; use --world mujoco")
    cfg = TerrainImporterCfg(
        prim_path="/World/ground",
        terrain_type="generator" if tiles else "plane",
        terrain_generator=tiles and generator_cfg(tiles.generator, curriculum),
        max_init_terrain_level=tiles.max_init_level if tiles else 5,  # Isaac Lab's default
        collision_group=-1,
        physics_material=sim_utils.RigidBodyMaterialCfg(
            friction_combine_mode="multiply",
            restitution_combine_mode="multiply",
            static_friction=ground.friction,
            dynamic_friction=ground.friction,
        ),
        visual_material=(
            sim_utils.MdlFileCfg(mdl_path=TILES, project_uvw=True, texture_scale=(0.25, 0.25)) if textured else None
        ),
        debug_vis=False,
    )
    if ground.flat and not textured:
        cfg.class_type = compat.class_type("gaitway_isaaclab.ground:LocalGroundImporter")
    return cfg


def generator_cfg(generator: TerrainGenerator, curriculum: bool) -> Any:
    return TerrainGeneratorCfg(
        seed=generator.seed,
        size=generator.size,
        border_width=generator.border_width,
        num_rows=generator.num_rows,
        num_cols=generator.num_cols,
        horizontal_scale=generator.horizontal_scale,
        vertical_scale=generator.vertical_scale,
        slope_threshold=generator.slope_threshold,
        use_cache=False,
        curriculum=curriculum,
        sub_terrains={name: sub_terrain_cfg(sub) for name, sub in generator.sub_terrains.items()},
    )


def sub_terrain_cfg(sub: SubTerrain) -> Any:
    if sub.kind in SUB_TERRAINS:
        return SUB_TERRAINS[sub.kind](proportion=sub.proportion, **sub.params)
    return BoxesCfg(proportion=sub.proportion, kind=sub.kind, params=dict(sub.params))


def scanner_cfg(scanner: HeightScanner, body: str, step_dt: float) -> Any:
    """Rays straight down from 20 m above ``body``, turned with its yaw, once in a control step."""
    kind: dict[str, Any] = {}
    if compat.is_3():  # where Newton's rays would hit the robot too
        kind = {"class_type": compat.class_type("gaitway_isaaclab.scanner:ray_caster"), "global_world_only": True}
    return RayCasterCfg(
        prim_path=f"{{ENV_REGEX_NS}}/Robot/{body}",
        offset=RayCasterCfg.OffsetCfg(pos=(0.0, 0.0, 20.0)),
        ray_alignment="yaw",
        pattern_cfg=patterns.GridPatternCfg(resolution=scanner.resolution, size=list(scanner.size)),
        debug_vis=False,
        mesh_prim_paths=["/World/ground"],
        update_period=step_dt,
        **kind,
    )
