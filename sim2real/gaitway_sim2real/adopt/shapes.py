"""Shapes that collide: their points, and the simple ones that stand for them."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from ..mujoco.shapes import MESH, Shape
from .tree import Array

MANY = 3
"""Shapes of a link above which they become one box."""
LONG = 2.5
"""Length over width from which a box becomes a capsule."""
_ANGLES = np.linspace(0.0, 2.0 * np.pi, 16, endpoint=False)
_CIRCLE = np.stack([np.cos(_ANGLES), np.sin(_ANGLES), 0.0 * _ANGLES], 1)
_RINGS = [np.cos(rise) * _CIRCLE + [0.0, 0.0, np.sin(rise)] for rise in (-1.0, -0.5, 0.0, 0.5, 1.0)]
_BALL = np.concatenate([[[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]], *_RINGS])
_CORNERS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


def points(shape: Shape) -> Array:
    """Points of a shape's surface in the link's frame [m], (N, 3)."""
    size = shape.size
    if shape.kind == MESH:
        found = size
    elif shape.kind == "box":
        found = _CORNERS * size
    elif shape.kind in ("sphere", "ellipsoid"):
        found = _BALL * (size if shape.kind == "ellipsoid" else size[0])
    else:
        part = size[0] * (_BALL if shape.kind == "capsule" else _CIRCLE)
        found = np.concatenate([part + np.array([0.0, 0.0, end * size[1]]) for end in (-1.0, 1.0)])
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
    length = float(np.linalg.norm(end - start))
    quat, flat = np.zeros(4), np.zeros(9)
    mujoco.mju_quatZ2Vec(quat, (end - start) / max(length, 1e-9))
    mujoco.mju_quat2Mat(flat, quat)
    size = np.array([radius, max(length / 2.0 - radius, 1e-3), 0.0])
    return Shape(kind="capsule", size=size, position=(start + end) / 2.0, rotation=flat.reshape(3, 3))


def simple(shapes: Sequence[Shape]) -> list[Shape]:
    """``shapes`` without meshes, and one in place of many."""
    if len(shapes) > MANY:
        return [_slim(box_of(all_points(shapes), np.eye(3)))]
    return [_slim(box_of(points(each), each.rotation)) if each.kind == MESH else each for each in shapes]


def _slim(box: Shape) -> Shape:
    """A capsule in place of a long box."""
    order = np.argsort(box.size)
    if box.size[order[2]] < LONG * box.size[order[1]]:
        return box
    along = box.rotation[:, order[2]] * box.size[order[2]]
    return capsule_between(box.position - along, box.position + along, float(box.size[order[:2]].mean()))
