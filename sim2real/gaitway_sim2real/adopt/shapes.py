"""Simple collision shapes: of feet what touches the ground, of other links a box or a capsule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mujoco
import numpy as np

from ..mujoco.shapes import MESH, Shape
from .tree import Array

_GEOM = mujoco.mjtGeom
TYPES = {
    "sphere": _GEOM.mjGEOM_SPHERE, "capsule": _GEOM.mjGEOM_CAPSULE, "cylinder": _GEOM.mjGEOM_CYLINDER,
    "box": _GEOM.mjGEOM_BOX, "ellipsoid": _GEOM.mjGEOM_ELLIPSOID,
}  # fmt: skip
MANY = 3
"""Shapes of a link above which they become one box."""
LONG = 2.5
"""Length over width from which a box becomes a capsule."""
_ANGLES = np.linspace(0.0, 2.0 * np.pi, 16, endpoint=False)
_CIRCLE = np.stack([np.cos(_ANGLES), np.sin(_ANGLES), 0.0 * _ANGLES], 1)
_BALL = np.concatenate([
    [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]],
    *(np.cos(rise) * _CIRCLE + [0.0, 0.0, np.sin(rise)] for rise in (-1.0, -0.5, 0.0, 0.5, 1.0)),
])  # fmt: skip
_CORNERS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


def points(shape: Shape) -> Array:
    """Points of a shape's surface in the link's frame [m], (N, 3)."""
    size, along = shape.size, np.array([0.0, 0.0, 1.0])
    if shape.kind == MESH:
        found = size
    elif shape.kind == "box":
        found = _CORNERS * size
    elif shape.kind == "ellipsoid":
        found = _BALL * size
    elif shape.kind == "sphere":
        found = _BALL * size[0]
    else:
        part = _BALL if shape.kind == "capsule" else _CIRCLE
        found = np.concatenate([size[0] * part + end * size[1] * along for end in (-1.0, 1.0)])
    return np.asarray(shape.position + found @ shape.rotation.T)


def all_points(shapes: Sequence[Shape]) -> Array:
    return np.concatenate([points(shape) for shape in shapes]) if shapes else np.zeros((0, 3))


def sphere(center: Array, radius: float) -> Shape:
    return Shape(kind="sphere", size=np.array([radius, 0.0, 0.0]), position=center, rotation=np.eye(3))


def box_of(cloud: Array, rotation: Array) -> Shape:
    """The box with axes ``rotation`` around points (N, 3)."""
    inside = cloud @ rotation
    low, high = inside.min(0), inside.max(0)
    size = np.maximum((high - low) / 2.0, 1e-3)
    return Shape(kind="box", size=size, position=rotation @ ((low + high) / 2.0), rotation=rotation)


def capsule_between(start: Array, end: Array, radius: float) -> Shape:
    """The capsule whose round ends reach ``start`` and ``end``."""
    along = (end - start) / max(float(np.linalg.norm(end - start)), 1e-9)
    half = max(float(np.linalg.norm(end - start)) / 2.0 - radius, 1e-3)
    quat, flat = np.zeros(4), np.zeros(9)
    mujoco.mju_quatZ2Vec(quat, along)
    mujoco.mju_quat2Mat(flat, quat)
    size = np.array([radius, half, 0.0])
    return Shape(kind="capsule", size=size, position=(start + end) / 2.0, rotation=flat.reshape(3, 3))


def simple(shapes: Sequence[Shape]) -> list[Shape]:
    """``shapes`` without meshes, and one in place of many."""
    if len(shapes) > MANY:
        return [_slim(box_of(all_points(shapes), np.eye(3)))]
    return [_slim(box_of(points(each), each.rotation)) if each.kind == MESH else each for each in shapes]


def _slim(box: Shape) -> Shape:
    order = np.argsort(box.size)
    if box.size[order[2]] < LONG * box.size[order[1]]:
        return box
    along = box.rotation[:, order[2]] * box.size[order[2]]
    radius = float(box.size[order[:2]].mean())
    return capsule_between(box.position - along, box.position + along, radius)


def clear(shapes: Sequence[Shape], place: Shape | None, floor: float, lowest: Callable[[Shape], float]) -> list[Shape]:
    """``shapes`` that end above ``floor`` [m], and ``place`` for those that do not, if it does."""
    kept = [shape for shape in shapes if lowest(shape) >= floor]
    if len(kept) < len(shapes) and place is not None and lowest(place) >= floor:
        kept.append(place)
    return kept
