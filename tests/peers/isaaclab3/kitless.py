"""Isaac Lab 3.0 without Isaac Sim: Newton on a CPU, with assets of our own where it would fetch NVIDIA's.

Call :func:`use_local_assets` before anything of Isaac Lab but ``isaaclab.utils.assets`` is imported: its configurations
take their paths when their classes are made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

GROUND = "Isaac/Environments/Grid/default_environment.usd"
STOCK_FLAT = "Isaac-Velocity-Flat-Anymal-C-v0"
STOCK_ROUGH = "Isaac-Velocity-Rough-Anymal-C-v0"
PRESET = "newton_mjwarp"


def use_local_assets(folder: Path) -> None:
    """Fill ``folder`` with ANYmal C, from Gaitway's model, and a ground plane, and have Isaac Lab look there."""
    import isaaclab.utils.assets as assets
    from gaitway_isaaclab.usd import write_usd
    from gaitway_tasks.robots.anymal_c import ANYMAL_C

    assert ANYMAL_C.usd is not None
    write_usd(ANYMAL_C, folder / "Isaac" / "IsaacLab" / ANYMAL_C.usd)
    write_ground(folder / GROUND)
    assets.NUCLEUS_ASSET_ROOT_DIR = str(folder)
    assets.NVIDIA_NUCLEUS_DIR = f"{folder}/NVIDIA"
    assets.ISAAC_NUCLEUS_DIR = f"{folder}/Isaac"
    assets.ISAACLAB_NUCLEUS_DIR = f"{folder}/Isaac/IsaacLab"


def write_ground(path: Path) -> None:
    """A plane at z = 0 that collides, with the prims that Isaac Lab's ground spawner looks for."""
    from pxr import Usd, UsdGeom, UsdPhysics, UsdShade

    path.parent.mkdir(parents=True, exist_ok=True)
    stage = Usd.Stage.CreateInMemory()
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    stage.SetDefaultPrim(UsdGeom.Xform.Define(stage, "/ground").GetPrim())
    plane = UsdGeom.Plane.Define(stage, "/ground/plane")
    plane.CreateAxisAttr("Z")
    UsdPhysics.CollisionAPI.Apply(plane.GetPrim())
    UsdShade.Shader.Define(stage, "/ground/Looks/theGrid/Shader")  # it sets the colour here
    stage.GetRootLayer().Export(str(path))


def env_cfg(task_id: str, num_envs: int, seed: int = 0) -> Any:
    """The registered configuration of ``task_id`` for Newton on the CPU, with nothing that has to be fetched."""
    import isaaclab_tasks  # noqa: F401  registers the stock tasks
    from isaaclab_tasks.utils import load_cfg_from_registry, resolve_presets

    cfg: Any = resolve_presets(load_cfg_from_registry(task_id, "env_cfg_entry_point"), (PRESET,))
    return kitless(cfg, num_envs, seed)


def kitless(cfg: Any, num_envs: int, seed: int = 0) -> Any:
    """Take out of ``cfg`` what needs a GPU, a renderer or NVIDIA's servers."""
    cfg.scene.num_envs, cfg.seed = num_envs, seed
    cfg.sim.device = "cpu"
    cfg.sim.physics.use_cuda_graph = False
    cfg.scene.terrain.visual_material = None
    if getattr(cfg.scene, "sky_light", None) is not None:
        cfg.scene.sky_light.spawn.texture_file = None
    cfg.commands.base_velocity.debug_vis = False
    return cfg


def with_dc_motors(cfg: Any) -> Any:
    """The stock robot with Isaac Lab's own simple ANYdrive: the network of its default one has to be fetched."""
    from isaaclab_assets.robots.anymal import ANYDRIVE_3_SIMPLE_ACTUATOR_CFG

    armature = cfg.scene.robot.actuators["legs"].armature
    cfg.scene.robot.actuators = {"legs": ANYDRIVE_3_SIMPLE_ACTUATOR_CFG.replace(armature=armature)}
    return cfg


def stock_cfg(task_id: str, num_envs: int, seed: int = 0) -> Any:
    return with_dc_motors(env_cfg(task_id, num_envs, seed))


def make_env(cfg: Any) -> Any:
    """The environment itself, without Gymnasium's wrappers."""
    from isaaclab.envs import ManagerBasedRLEnv

    return ManagerBasedRLEnv(cfg)
