"""Lowest points of a foot's collision shapes, from the poses of its link: where a sole ends, and what other simulators
that report poses alone touch the ground with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
from gaitway_onboard.rotation import projected_gravity, quat_apply

_GEOM = mujoco.mjtGeom
KINDS = {
    _GEOM.mjGEOM_SPHERE: "sphere", _GEOM.mjGEOM_CAPSULE: "capsule", _GEOM.mjGEOM_CYLINDER: "cylinder",
    _GEOM.mjGEOM_BOX: "box", _GEOM.mjGEOM_ELLIPSOID: "ellipsoid",
}  # fmt: skip
MESH = "mesh"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A convex shape fixed to a link. ``size`` is MuJoCo's: radius, half length and half widths [m]."""

    kind: str
    size: np.ndarray  # (3,); of a mesh its vertices in its axes [m], (V, 3)
    position: np.ndarray  # (3,) [m], of its centre in the link's frame
    rotation: np.ndarray  # (3, 3), of its axes in the link's frame


def foot_shapes(model: mujoco.MjModel, feet: Sequence[str], geoms: Sequence[int]) -> list[list[Shape]]:
    """Members of ``geoms`` (ids) that belong to each of the bodies ``feet``, or to one below it, in the foot's frame.

    Shapes that have no simple lowest point, such as height fields, are left out.
    """
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    found: list[list[Shape]] = []
    for name in feet:
        foot = model.body(name).id
        turn, origin = data.xmat[foot].reshape(3, 3), data.xpos[foot]
        found.append([])
        for geom in (geom for geom in geoms if foot in lineage(model, model.geom_bodyid[geom])):
            kind = _GEOM(model.geom_type[geom])
            if kind in KINDS or kind == _GEOM.mjGEOM_MESH:
                shape = Shape(
                    kind=KINDS.get(kind, MESH),
                    size=model.geom_size[geom].copy() if kind in KINDS else _vertices(model, geom),
                    position=turn.T @ (data.geom_xpos[geom] - origin),
                    rotation=turn.T @ data.geom_xmat[geom].reshape(3, 3),
                )
                found[-1].append(shape)
    return found


def _vertices(model: mujoco.MjModel, geom: int) -> np.ndarray:
    mesh = model.geom_dataid[geom]
    first = model.mesh_vertadr[mesh]
    return np.array(model.mesh_vert[first : first + model.mesh_vertnum[mesh]], float)


def lineage(model: mujoco.MjModel, body: int) -> list[int]:
    """``body`` and the bodies above it, the world not included."""
    found = []
    while body > 0:
        found.append(int(body))
        body = model.body_parentid[body]
    return found


def lowest_point(shapes: Sequence[Shape], position: np.ndarray, quat: np.ndarray) -> np.ndarray:
    """The lowest point of all ``shapes`` in the world [m], (..., 3).

    ``position`` [m] (..., 3) and ``quat`` (..., 4, w x y z) are the link's.
    """
    down = projected_gravity(quat)
    points = np.stack([position + quat_apply(quat, _reach(shape, down)) for shape in shapes])
    lowest = points[..., 2].argmin(0)
    return np.take_along_axis(points, lowest[None, ..., None], 0)[0]


def _reach(shape: Shape, down: np.ndarray) -> np.ndarray:
    """The lowest point of a shape, (..., 3), both it and ``down`` (..., 3), a unit vector, in its link's frame."""
    down = down @ shape.rotation  # in the shape's axes
    size = shape.size
    if shape.kind == MESH:
        point = size[(down @ size.T).argmax(-1)]
    elif shape.kind == "box":
        point = np.where(down >= 0, size, -size)
    elif shape.kind == "ellipsoid":
        point = size**2 * down / np.linalg.norm(size * down, axis=-1, keepdims=True)
    else:
        point = np.zeros_like(down)
        if shape.kind != "sphere":
            point[..., 2] = np.where(down[..., 2] >= 0, size[1], -size[1])
        ball = down if shape.kind != "cylinder" else down * [1.0, 1.0, 0.0]
        length = np.linalg.norm(ball, axis=-1, keepdims=True)
        point = point + size[0] * ball / np.where(length > 1e-9, length, 1.0)
    return shape.position + point @ shape.rotation.T
