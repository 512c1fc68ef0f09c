"""Height of MuJoCo's ground under a point, as a ray finds it."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

ABOVE = 20.0


def world_of(spec: mujoco.MjSpec) -> tuple[Any, Any]:
    """Model and data with kinematics."""
    return placed(spec.compile())


def placed(model: Any) -> tuple[Any, Any]:
    data = mujoco.MjData(model)
    if model.nq:
        data.qpos[2] = 50.0  # a robot is out of the way
    mujoco.mj_forward(model, data)
    return model, data


def height_of(world: tuple[Any, Any], points: np.ndarray) -> np.ndarray:
    """Height of the ground under ``points`` (P, 2) [m], (P,)."""
    geom, down = np.zeros(1, np.int32), np.array([0.0, 0.0, -1.0])
    rays = [mujoco.mj_ray(*world, np.array([x, y, ABOVE]), down, None, 1, -1, geom) for x, y in points.tolist()]
    assert min(rays) >= 0.0
    return ABOVE - np.array(rays)
