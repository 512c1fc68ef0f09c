"""Everything in which Isaac Lab 2.3 and 3.0 differ, and nothing else.

Isaac Lab's packages number themselves: ``isaaclab.__version__`` is 0.54.x in Isaac Lab 2.3 and 6.1.x in 3.0.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .preflight import IsaacLabError, find, release_of

PHYSICS = {"physx": "physx", "newton": "newton_mjwarp"}
"""Our names for Isaac Lab 3.0's physics presets."""


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
    """Where to write, as the simulator takes it unconverted: int32 for 3.0's kernels, int64 for 2.3's torch."""
    return rows.to(torch.int32) if is_3() else rows


def quat_columns() -> tuple[int, ...] | None:
    """Which columns of a quaternion are w, x, y, z; None when it is in that order already."""
    return (3, 0, 1, 2) if is_3() else None


def identity_quat() -> tuple[float, float, float, float]:
    """No rotation, as configurations write it."""
    return (0.0, 0.0, 0.0, 1.0) if is_3() else (1.0, 0.0, 0.0, 0.0)


def sensor_bodies(sensor: Any) -> Sequence[str]:
    """Names of the bodies that a contact sensor reports, in its order. Newton's sensors call them sensors."""
    names = getattr(sensor, "sensor_names", None)
    return list(sensor.body_names if names is None else names)


def body_masses(data: Any) -> Tensor:
    """Masses as loaded [kg], (N, B), in the simulator's order."""
    return tensor(data.body_mass if is_3() else data.default_mass)


# ---- configuration ---------------------------------------------------------------------------------------------------


def configclass() -> Any:
    if is_3():
        from isaaclab.utils.configclass import configclass
    else:
        from isaaclab.utils import configclass
    return configclass


def noise_cfg(low: float, high: float) -> Any:
    """Additive uniform noise. 3.0 has dropped the older alias of this class."""
    from isaaclab.utils.noise import UniformNoiseCfg

    return UniformNoiseCfg(n_min=low, n_max=high)


def preset(default: Any, newton: Any) -> Any:
    """``default``, or on 3.0 a preset that ``physics=newton_mjwarp`` switches to ``newton``."""
    if not is_3():
        return default
    from isaaclab_tasks.utils import preset

    return preset(default=default, newton_mjwarp=newton, physx=default)


def set_physics(sim: Any, rough: bool) -> None:
    """Physics engines with the settings of Isaac Lab's own velocity tasks, on ``sim`` (``SimulationCfg``).

    2.3 has PhysX only. 3.0 gets a preset, for ``physics=physx`` and ``physics=newton_mjwarp``.
    """
    patches = 10 * 2**15
    if not is_3():
        sim.physx.gpu_max_rigid_patch_count = patches
        return
    from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg, NewtonCollisionPipelineCfg, NewtonShapeCfg
    from isaaclab_physx.physics import PhysxCfg

    if rough:
        newton = NewtonCfg(
            solver_cfg=MJWarpSolverCfg(
                njmax=200,
                nconmax=100,
                cone="pyramidal",
                impratio=1.0,
                integrator="implicitfast",
                use_mujoco_contacts=False,
            ),
            collision_cfg=NewtonCollisionPipelineCfg(max_triangle_pairs=2_500_000),
            num_substeps=1,
            debug_mode=False,
            default_shape_cfg=NewtonShapeCfg(margin=0.01),
        )
    else:
        newton = NewtonCfg(
            solver_cfg=MJWarpSolverCfg(njmax=120, nconmax=15, cone="elliptic", impratio=100, integrator="implicitfast"),
            num_substeps=1,
            debug_mode=False,
        )
    if str(sim.device).startswith("cpu"):
        newton.use_cuda_graph = False
    sim.physics = preset(PhysxCfg(gpu_max_rigid_patch_count=patches), newton)


def make_room_for_contacts(sim: Any, num_envs: int) -> None:
    """Give Newton's collision pipeline as many contacts as its solver takes, ``nconmax`` for each environment.

    It counts pairs of shapes to guess how many it needs. A robot that does not collide with itself has few of them,
    and the solver refuses a pipeline smaller than itself.
    """
    physics = getattr(sim, "physics", None)
    collisions, solver = getattr(physics, "collision_cfg", None), getattr(physics, "solver_cfg", None)
    if collisions is not None and solver is not None:
        collisions.rigid_contact_max = solver.nconmax * num_envs


def contact_sensor_cfg(**settings: Any) -> Any:
    """A contact sensor; on 3.0 the class of the chosen physics engine."""
    if not is_3():
        from isaaclab.sensors import ContactSensorCfg

        return ContactSensorCfg(**settings)
    from isaaclab_newton.sensors import ContactSensorCfg as NewtonContactSensorCfg
    from isaaclab_physx.sensors import ContactSensorCfg as PhysxContactSensorCfg

    return preset(PhysxContactSensorCfg(**settings), NewtonContactSensorCfg(**settings))


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

    return resolve_presets(cfg, {PHYSICS[physics]})
