"""Isaac Lab 3.0 without Isaac Sim, on a CPU: its own tasks, with assets of ours where it would fetch NVIDIA's.

Call :func:`use_local_assets` before anything of Isaac Lab is imported: it reads where its assets are when it is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

GROUND = "Isaac/IsaacLab/Environments/Grid/default_ground_plane_checker_v1/default_ground_plane.usda"
STOCK_FLAT = "IsaacContrib-Velocity-Flat-AnymalC"
STOCK_ROUGH = "IsaacContrib-Velocity-Rough-AnymalC"
PRESETS = {"newton": "newton_mjwarp", "physx": "ovphysx"}


def use_local_assets(folder: Path) -> None:
    """Fill ``folder`` with robots, from Gaitway's models, and a ground plane, and have Isaac Lab look there."""
    os.environ["ISAACSIM_ASSET_ROOT"] = str(folder)
    from gaitway_isaaclab.usd import write_usd
    from gaitway_tasks.robots import ROBOTS

    for name in ("anymal-c", "go2", "h1"):
        robot = ROBOTS[name]
        assert robot.usd is not None
        write_usd(robot, folder / "Isaac" / "IsaacLab" / robot.usd)
    write_ground(folder / GROUND)


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


def env_cfg(task_id: str, num_envs: int, physics: str, seed: int = 0) -> Any:
    """The registered configuration of ``task_id`` on the CPU, with nothing that has to be fetched."""
    import isaaclab_tasks  # noqa: F401  registers the stock tasks
    from isaaclab_tasks.utils import load_cfg_from_registry, resolve_presets

    cfg: Any = resolve_presets(load_cfg_from_registry(task_id, "env_cfg_entry_point"), (PRESETS[physics],))
    return kitless(cfg, num_envs, seed)


def kitless(cfg: Any, num_envs: int, seed: int = 0) -> Any:
    """Take out of ``cfg`` what needs a GPU, a renderer or NVIDIA's servers."""
    cfg.scene.num_envs, cfg.seed = num_envs, seed
    cfg.sim.device = "cpu"
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


def stock_cfg(task_id: str, num_envs: int, physics: str, seed: int = 0) -> Any:
    return with_dc_motors(env_cfg(task_id, num_envs, physics, seed))


def make_env(cfg: Any) -> Any:
    """The environment itself, without Gymnasium's wrappers; ``cfg`` may be NVIDIA's or ours."""
    from gaitway_isaaclab.compat import do_without_gpu
    from isaaclab.app import launch_simulation
    from isaaclab.envs import ManagerBasedRLEnv

    do_without_gpu(cfg.sim)
    with launch_simulation(cfg, {"device": "cpu"}):
        return ManagerBasedRLEnv(cfg)
