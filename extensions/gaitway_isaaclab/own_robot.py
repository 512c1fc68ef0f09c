"""A user's own MJCF or URDF as a robot that :mod:`.usd` writes, and what Isaac Lab makes of it."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_tasks.robots.robot import ImplicitPD, Robot
from gaitway_tasks.robots.source import SourceError

from .usd import body_inertials, compile_file

TOLERANCE = 1e-3
"""Largest difference between a loaded inertia or joint limit and the file's, as a part of the largest number."""


def robot_in(path: str | Path) -> Robot:
    """The robot in an MJCF or URDF file: every hinge is driven, with the gains of its position actuator, if it has one.

    Joints without one get drives without stiffness and damping, and no limit where the file has none. The default pose
    is zero, or the nearest that joint limits allow. Raises :class:`gaitway_tasks.robots.source.SourceError` or
    :class:`gaitway_tasks.robots.mjcf.ModelError` for a file that is no walking robot.
    """
    from gaitway_tasks.robots.mjcf import effort_limits, position_gains

    path = Path(path)
    model = compile_file(path)
    names = [model.joint(joint).name for joint in range(1, model.njnt)]
    efforts, gains = effort_limits(model, names), position_gains(model, names)
    if negative := next((each for each in zip(names, gains, strict=True) if min(each[1]) < 0.0), None):
        name, (kp, kd) = negative
        raise SourceError(f"{path}: the actuator of {name!r} has kp={kp:g} and kv={kd:g}: neither may be below 0")
    limits = [
        tuple(model.jnt_range[j].tolist()) if model.jnt_limited[j] else (-math.inf, math.inf)
        for j in range(1, model.njnt)
    ]
    return Robot(
        name=path.stem,
        joint_names=tuple(names),
        body_names=tuple(model.body(body).name for body in range(1, model.nbody)),
        foot_names=(),
        default_joint_pos=tuple(min(max(0.0, low), high) for low, high in limits),
        joint_limits=tuple((low, high) for low, high in limits),
        soft_joint_pos_limit_factor=1.0,
        init_height=float(model.qpos0[2]),
        actuators={
            name: ImplicitPD(
                stiffness=kp, damping=kd, effort_limit=efforts.get(name, math.inf), joints=(re.escape(name),)
            )
            for name, (kp, kd) in zip(names, gains, strict=True)
        },
        mjcf=path,
    )


def check_loaded(robot: Robot, physics: str) -> list[str]:
    """Load the converted ``robot`` in Isaac Lab 3.0 and compare masses, inertias and joint limits with the file's.

    Returns a line on each. Raises :class:`gaitway_isaaclab.preflight.IsaacLabError` for masses, and
    :class:`gaitway_tasks.robots.source.SourceError` for others that differ.
    """
    from . import compat
    from .walk import Walk

    walk = Walk(robot, 1, physics=physics, physics_dt=0.005, decimation=1, friction=1.0)  # it checks the masses
    try:
        articulation = walk.articulation
        data, bodies, joints = articulation.data, list(articulation.body_names), list(articulation.joint_names)
        model = compile_file(robot.mjcf)
        expected = {model.body(i).name: found for i, found in enumerate(body_inertials(model)) if i}
        mass = float(compat.body_masses(data)[0].sum())
        inertia = compat.tensor(data.body_inertia)[0].view(-1, 3, 3).cpu().numpy()
        off = _largest(
            {name: (inertia[bodies.index(name)], found.inertia) for name, found in expected.items()}, "inertia of body"
        )
        limits = compat.tensor(data.joint_pos_limits)[0].cpu().numpy()
        limited = {
            name: (limits[joints.index(name)], np.array(told))
            for name, told in zip(robot.joint_names, robot.joint_limits, strict=True)
            if math.isfinite(told[0])
        }
        off_limits = _largest(limited, "limits of joint")
    finally:
        walk.close()
    return [
        f"{len(bodies)} bodies of {mass:.4g} kg, as the file has them",
        f"inertias within {off:.1e}, limits of {len(limited)} joints within {off_limits:.1e} of the file's",
    ]


def _largest(pairs: dict[str, Any], what: str) -> float:
    """Largest difference of two arrays, as a part of the largest number of the second."""
    worst = 0.0
    for name, (found, expected) in pairs.items():
        off = float(np.abs(found - expected).max() / np.abs(expected).max())
        if not off <= TOLERANCE:
            raise SourceError(
                f"the simulator loaded the {what} {name} as {found.tolist()}, the file has {expected.tolist()}"
            )
        worst = max(worst, off)
    return worst
