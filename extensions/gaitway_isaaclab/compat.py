"""All differences between Isaac Lab 2.3 and 3.0, and nothing else."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any

import torch
from gaitway_tasks.robots import DESCRIPTIONS, IsaacLabRobot
from torch import Tensor

from .preflight import PHYSICS, IsaacLabError, find, release_of

NEWTON = "newton_mjwarp"
"""Isaac Lab 3.0's preset of Newton with the solver MuJoCo Warp."""


@functools.cache
def release() -> str:
    """The installed Isaac Lab: ``"2.3"`` or ``"3.0"``."""
    import isaaclab

    # The outer package of a wheel may have no version of its own.
    return release_of(str(getattr(isaaclab, "__version__", None) or find().versions["isaaclab"]))


def is_3() -> bool:
    return release() == "3.0"


# ---- data ------------------------------------------------------------------------------------------------------------


def tensor(array: Any) -> Tensor:
    """Simulation data as torch: 2.3 has tensors, 3.0 a ``ProxyArray`` with a cached view."""
    return getattr(array, "torch", array)


def index(rows: Tensor) -> Tensor:
    """Row indices in the simulator's own type: int32 for 3.0's kernels, int64 for 2.3's torch."""
    return rows.to(torch.int32) if is_3() else rows


def quat_columns() -> tuple[int, ...] | None:
    """Columns of w, x, y, z in a quaternion; None if it is already in that order."""
    return (3, 0, 1, 2) if is_3() else None


def identity_quat() -> tuple[float, float, float, float]:
    """Identity quaternion in the order of configurations."""
    return (0.0, 0.0, 0.0, 1.0) if is_3() else (1.0, 0.0, 0.0, 0.0)


def contact_forces(data: Any, history: bool = False) -> Tensor:
    """Normal forces on the sensed bodies [N], (N, S, 3), or the last of them, (N, H, S, 3).

    In 3.0 a sensor's net force includes friction, which Isaac Lab's contact terms leave out too.
    """
    name = f"{'net_normal_forces_w' if is_3() else 'net_forces_w'}{'_history' if history else ''}"
    return tensor(getattr(data, name))


def applied_torque(articulation: Any) -> Tensor:
    """Torques of the drives after all limits [N m], (N, J), in the simulator's order."""
    return tensor(articulation.actuators.applied_effort if is_3() else articulation.data.applied_torque)


def body_masses(data: Any) -> Tensor:
    """Masses as loaded [kg], (N, B), in the simulator's order."""
    return tensor(data.body_mass if is_3() else data.default_mass)


# ---- configuration ---------------------------------------------------------------------------------------------------


def refuse_older_run(folder: str | None) -> None:
    """Raise :class:`IsaacLabError` if rsl_rl 3 wrote the run in ``folder``, which 3.0's ``play`` has as ``log_dir``.

    The rsl_rl of 3.0 looks for weights under other names, and says ``KeyError: 'actor_state_dict'``.
    """
    settings = Path(folder or "", "params", "agent.yaml")
    if not folder or not settings.is_file():
        return
    keys = {line.rstrip() for line in settings.read_text(errors="replace").splitlines() if line[:1].isalpha()}
    if "policy:" in keys and not {"actor:", "student:"} & keys:
        raise IsaacLabError(
            f"{folder} is a run of Isaac Lab 2 (rsl_rl 3), whose checkpoints the rsl_rl of 3.0 does not load: play it "
            f"with Isaac Lab 2.3, or take its policy by 'gaitway import {folder} --out BUNDLE'"
        )


def velocity_mdp() -> Any:
    """Module of the functions that 3.0's own velocity tasks use, those of ``isaaclab.envs.mdp`` among them."""
    return importlib.import_module("isaaclab_tasks.core.velocity.mdp")


def class_type(name: str) -> Any:
    """Value of ``class_type`` for ``"module:Class"``: the class, or in 3.0 the name, which is imported on use."""
    if is_3():
        return name
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def noise_cfg(low: float, high: float) -> Any:
    """Additive uniform noise. 3.0 has dropped the older alias of this class."""
    from isaaclab.utils.noise import UniformNoiseCfg

    return UniformNoiseCfg(n_min=low, n_max=high)


def set_physics(sim: Any, robot: str, rough: bool) -> None:
    """Physics engines with the settings of Isaac Lab's own velocity tasks, on ``sim`` (``SimulationCfg``).

    2.3 has PhysX only. 3.0 gets the presets of its own tasks: ``physics=physx`` leaves it to Isaac Lab whether PhysX
    runs in Isaac Sim (``isaacsim_physx``) or by itself (``ovphysx``).
    """
    patches = 10 * 2**15
    if not is_3():
        sim.physx.gpu_max_rigid_patch_count = patches
        return
    from isaaclab.physics import PhysxAutoCfg
    from isaaclab_newton.physics import (
        KaminoPADMMSolverCfg,
        MJWarpSolverCfg,
        NewtonCfg,
        NewtonCollisionPipelineCfg,
        NewtonShapeCfg,
    )
    from isaaclab_ov.physics import OvPhysxCfg
    from isaaclab_physx.physics import PhysxCfg
    from isaaclab_tasks.utils import PresetCfg

    from .declared import declared

    described = DESCRIPTIONS.get(robot)
    own = IsaacLabRobot() if described is None else described.isaaclab
    njmax, nconmax = own.rough_contacts if rough else own.flat_contacts
    elliptic = own.elliptic and not rough
    newton = NewtonCfg(
        solver_cfg=MJWarpSolverCfg(
            njmax=njmax,
            nconmax=nconmax,
            cone="elliptic" if elliptic else "pyramidal",
            impratio=100.0 if elliptic else 1.0,
            integrator="implicitfast",
            use_mujoco_contacts=False,
        ),
        collision_cfg=NewtonCollisionPipelineCfg(max_triangle_pairs=2_500_000),
        num_substeps=2,
        debug_mode=False,
        default_shape_cfg=NewtonShapeCfg(margin=0.0, ke=160000.0, kd=1100.0),
    )
    kit, alone = PhysxCfg(gpu_max_rigid_patch_count=patches), OvPhysxCfg(gpu_max_rigid_patch_count=patches)
    auto = PhysxAutoCfg(isaacsim_physx=kit, ovphysx=alone)
    kamino = NewtonCfg(solver_cfg=KaminoPADMMSolverCfg(max_contacts_per_world=64))
    engines = {"physx": auto, "isaacsim_physx": kit, "ovphysx": alone, NEWTON: newton, "newton_kamino": kamino}
    sim.physics = declared("PhysicsCfg", {"default": auto, **engines}, PresetCfg)


def make_room_for_contacts(sim: Any, num_envs: int) -> None:
    """Give Newton's collision pipeline as many contacts as its solver takes, ``nconmax`` for each environment.

    It counts pairs of shapes to guess how many it needs. A robot that does not collide with itself has few of them,
    and the solver refuses a pipeline smaller than itself.
    """
    physics = getattr(sim, "physics", None)
    collisions, solver = getattr(physics, "collision_cfg", None), getattr(physics, "solver_cfg", None)
    if collisions is not None and solver is not None:
        collisions.rigid_contact_max = solver.nconmax * num_envs


def do_without_gpu(sim: Any) -> None:
    """Configure 3.0 for a CPU, which has neither the graphs that Newton captures nor the page-locked memory that
    PhysX's arrays request: use plain memory."""
    if not str(sim.device).startswith("cpu"):
        return
    if hasattr(sim.physics, "use_cuda_graph"):
        sim.physics.use_cuda_graph = False
    import warp

    if not warp.is_cuda_available():
        cpu = warp.get_device("cpu")
        cpu.pinned_allocator = cpu.default_allocator


def choose_physics(cfg: Any, physics: str | None) -> Any:
    """Settle the presets in ``cfg`` on ``physics``, ``"physx"`` or ``"newton"``; None leaves the choice open."""
    if physics is None:
        return cfg
    if physics not in PHYSICS:
        raise IsaacLabError(f"physics {physics!r}: use one of {', '.join(PHYSICS)}")
    if not is_3():
        if physics == "newton":
            raise IsaacLabError("physics 'newton' needs Isaac Lab 3.0; this is 2.3, which has 'physx' only")
        return cfg
    from isaaclab_tasks.utils import resolve_presets

    return resolve_presets(cfg, {NEWTON if physics == "newton" else physx_preset()})


def physx_preset() -> str:
    """3.0's preset of PhysX: Isaac Lab's choice where it has both, else the one that is installed."""
    return "physx" if find().versions["ovphysx"] else "isaacsim_physx"
