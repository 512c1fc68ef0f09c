"""Shapes that collide: feet as found, boxes and capsules for all other links, and nothing else near the ground."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from ..mujoco.shapes import MESH, Shape
from .stance import Stance
from .tree import AdoptError, Array

CLEARANCE = 0.02  # least height above the soles of anything but a foot, as a share of the robot's height
ANKLE, SHIN = 0.12, 0.06
"""Part of a shin that has no shape but the foot's, and radius of a made shin, as shares of its length."""
THIN = 0.08  # half the thickness of a made base, as a share of the robot's height
MANY = 3  # shapes of a link above which they become one box
LONG = 2.5  # length over width from which a box becomes a capsule
_ANGLES = np.linspace(0.0, 2.0 * np.pi, 16, endpoint=False)
_CIRCLE = np.stack([np.cos(_ANGLES), np.sin(_ANGLES), 0.0 * _ANGLES], 1)
_RINGS = [np.cos(rise) * _CIRCLE + [0.0, 0.0, np.sin(rise)] for rise in (-1.0, -0.5, 0.0, 0.5, 1.0)]
_BALL = np.concatenate([[[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]], *_RINGS])
_CORNERS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


# ---- of a robot in its default pose --------------------------------------------------------------------------------


def collision_shapes(stance: Stance, hips: Sequence[str], size: float, notes: list[str]) -> dict[str, list[Shape]]:
    """Shapes {link or foot: shapes in the link's frame}."""
    soles = {foot.link: foot for foot in stance.feet}
    ground = min(float(stance.sole(foot)[2]) for foot in stance.feet)
    found = {foot.name: list(foot.shapes) for foot in stance.feet}

    for link in stance.tree.links:
        foot, floor, shin = soles.get(link.name), ground + CLEARANCE * size, None
        if foot is not None and not foot.own_body:
            continue
        kept_frames = [frame for frame in link.frames if foot is None or frame.name != foot.name]
        own = simple([shape for frame in kept_frames for shape in frame.shapes])
        if foot is not None and link.joints:
            start, end = link.joints[-1].position, foot.sole
            shin = capsule_between(start, start + 0.75 * (end - start), SHIN * float(np.linalg.norm(end - start)))
            floor = max(floor, ground + ANKLE * float(stance.place(link.name, start)[2] - ground))
        if link.parent is None and not own:
            own = [_between_hips(stance, hips, size)]
            notes.append(f"base {link.name}: no shape in the file: a box between the hips (a guess)")
        kept = [shape for shape in own if lowest(stance, link.name, [shape]) >= floor]
        if len(kept) < len(own) and shin is not None and lowest(stance, link.name, [shin]) >= floor:
            kept.append(shin)
        if link.parent is None and not kept:
            below = lowest(stance, link.name, own) - ground
            raise AdoptError(
                f"{stance.tree.path}: in its default pose it would lie on its base {link.name!r}, which is "
                f"{below:.3f} m above the soles: give a pose with straighter legs, --pose JOINT=RAD,..."
            )
        found[link.name] = kept
    return found


def _between_hips(stance: Stance, hips: Sequence[str], size: float) -> Shape:
    """A box between the first joints of the legs, in the base's frame."""
    places, thick = np.array([stance.anchor(name) for name in hips]), THIN * size
    ends = places.mean(0) + thick * np.array([[0, 0, -1], [0, 0, 1], [-1, 0, 0], [1, 0, 0]])
    return box_of(np.concatenate([places * [1.0, 0.9, 1.0], ends]), np.eye(3))


def lowest(stance: Stance, link: str, shapes: Sequence[Shape]) -> float:
    """Height of the lowest point of a link's shapes [m]."""
    return float(stance.place(link, all_points(shapes))[:, 2].min())


# ---- made and simplified -------------------------------------------------------------------------------------------


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
