"""Collision shapes of a robot in its default pose: the feet's touch the ground, all others stay clear of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..mujoco.shapes import Shape
from .pose import Leg
from .shapes import box_of, capsule_between, points, simple
from .stance import Stance
from .tree import AdoptError

CLEARANCE = 0.02
"""Least height above the soles of anything but a foot, as a share of the robot's height."""
ANKLE, SHIN = 0.12, 0.06
"""Part of a shin that has no shape but the foot's, and radius of a made shin, as shares of its length."""
THIN = 0.08
"""Half the thickness of a made base, as a share of the robot's height."""


def collision_shapes(stance: Stance, legs: Sequence[Leg], size: float, notes: list[str]) -> dict[str, list[Shape]]:
    """Shapes {link or foot: shapes in the link's frame}."""
    soles = {foot.link: foot for foot in stance.feet}
    ground = min(float(stance.sole(foot)[2]) for foot in stance.feet)
    found = {foot.name: list(foot.shapes) for foot in stance.feet}

    def lowest(link: str, shape: Shape) -> float:
        return float(stance.place(link, points(shape))[:, 2].min())

    for link in stance.tree.links:
        foot, floor, shin = soles.get(link.name), ground + CLEARANCE * size, None
        if foot is not None and not foot.own_body:
            continue
        gone = set(foot.frames) if foot is not None else set()
        own = simple([each for frame in link.frames if frame.name not in gone for each in frame.shapes])
        if foot is not None and link.joints:
            start, end = link.joints[-1].position, foot.sole
            shin = capsule_between(start, start + 0.75 * (end - start), SHIN * float(np.linalg.norm(end - start)))
            floor = max(floor, ground + ANKLE * float(stance.place(link.name, start)[2] - ground))
        if link.parent is None and not own:
            own = [_between_hips(stance, legs, size)]
            notes.append(f"base {link.name}: no shape in the file: a box between the hips (a guess)")
        kept = [shape for shape in own if lowest(link.name, shape) >= floor]
        if len(kept) < len(own) and shin is not None and lowest(link.name, shin) >= floor:
            kept.append(shin)
        if link.parent is None and not kept:
            below = min(lowest(link.name, each) for each in own) - ground
            raise AdoptError(
                f"{stance.tree.path}: in its default pose it would lie on its base {link.name!r}, which is "
                f"{below:.3f} m above the soles: give a pose with straighter legs, --pose JOINT=RAD,..."
            )
        found[link.name] = kept
    return found


def _between_hips(stance: Stance, legs: Sequence[Leg], size: float) -> Shape:
    """A box between the first joints of the legs, in the base's frame."""
    hips, thick = np.array([stance.anchor(leg.joints[0]) for leg in legs]), THIN * size
    ends = hips.mean(0) + thick * np.array([[0, 0, -1], [0, 0, 1], [-1, 0, 0], [1, 0, 0]])
    return box_of(np.concatenate([hips * [1.0, 0.9, 1.0], ends]), np.eye(3))
