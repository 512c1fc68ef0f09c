"""Isaac Lab 3.0.0, ovphysx: a ray caster's rows are not in the order of the environments.

Twelve cubes, each in an environment of its own; a ray caster hangs from each. Prints how far the ray caster says that
it is from the cube of the same row.

    python ray_caster_rows.py
"""

import argparse

import isaaclab.sim as sim_utils
import torch
import warp
from isaaclab.app import launch_simulation
from isaaclab.assets import AssetBaseCfg, RigidObjectCfg
from isaaclab.scene import InteractiveScene, InteractiveSceneCfg
from isaaclab.sensors import RayCasterCfg, patterns
from isaaclab.utils import configclass


@configclass
class SceneCfg(InteractiveSceneCfg):
    ground = AssetBaseCfg(prim_path="/World/ground", spawn=sim_utils.MeshCuboidCfg(
        size=(100.0, 100.0, 0.1)))  # fmt: skip
    cube = RigidObjectCfg(prim_path="{ENV_REGEX_NS}/Cube", spawn=sim_utils.CuboidCfg(
        size=(0.2, 0.2, 0.2), rigid_props=sim_utils.RigidBodyPropertiesCfg(),
        mass_props=sim_utils.MassPropertiesCfg(mass=1.0), collision_props=sim_utils.CollisionPropertiesCfg()),
        init_state=RigidObjectCfg.InitialStateCfg(pos=(0.0, 0.0, 1.0)))  # fmt: skip
    scanner = RayCasterCfg(prim_path="{ENV_REGEX_NS}/Cube", mesh_prim_paths=["/World/ground"],
                           pattern_cfg=patterns.GridPatternCfg(resolution=0.1, size=[0.2, 0.2]))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_envs", type=int, default=12)
    options = parser.parse_args()
    from isaaclab_ov.physics import OvPhysxCfg

    if not warp.is_cuda_available():  # or ovphysx asks for page-locked memory, which there is none of
        cpu = warp.get_device("cpu")
        cpu.pinned_allocator = cpu.default_allocator
    sim_cfg = sim_utils.SimulationCfg(device="cpu", physics=OvPhysxCfg())
    with launch_simulation(sim_cfg, {"device": "cpu"}):
        sim = sim_utils.SimulationContext(sim_cfg)
        scene = InteractiveScene(SceneCfg(num_envs=options.num_envs, env_spacing=4.0))
        sim.reset()
        sim.step(render=False)
        scene.update(sim.get_physics_dt())
        cubes, seen = scene["cube"].data.root_pos_w.torch, scene["scanner"].data.pos_w.torch
        for row, off in enumerate(torch.linalg.norm(seen - cubes, dim=1).tolist()):
            print(f"row {row:2}: {off:6.2f} m")


main()
