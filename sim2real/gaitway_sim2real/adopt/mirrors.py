"""Mirror images of a tree: joints that a reflection of the base maps onto each other, by their places and axes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from gaitway_tasks.robots import Mirror

from .stance import Stance
from .tree import Array, Foot, Link, Tree

PARALLEL = 0.999
NEAR = 0.004
"""Distance of a joint's axis from its image that is none, as a share of the robot's height."""
MASSES = 0.15
"""Difference of two links' masses that is none, as a share of the larger one."""


@dataclass(frozen=True, kw_only=True)
class Reflection:
    """Image of each joint with its sign, and of each link."""

    axis: str
    joints: Mapping[str, tuple[str, float]]
    links: Mapping[str, str]


class NoMirror(Exception):
    """The reason why a reflection of the robot is not the robot."""


def find_reflection(tree: Tree, stance: Stance, axis: str, size: float) -> Reflection:
    """Raises :class:`NoMirror`. ``stance`` is left with all joints at zero."""
    stance.put(dict.fromkeys(tree.joints, 0.0))
    flip = np.where(np.array(list("xyz")) == axis, -1.0, 1.0)
    found = Reflection(axis=axis, joints={}, links={})
    _match(tree, stance, tree.links[0], tree.links[0], flip, size, found)
    return found


def _match(tree: Tree, stance: Stance, one: Link, two: Link, flip: Array, size: float, found: Reflection) -> None:
    """Add the images of what hangs on link ``one``, whose image is ``two``."""
    found.links[one.name] = two.name  # type: ignore[index]
    others = {link.name: link for link in tree.children(two.name)}
    for child in tree.children(one.name):
        far = {name: _distance(stance, child, other, flip, size) for name, other in others.items()}
        nearest = min(far, key=lambda name: far[name], default=None)
        if nearest is None or far[nearest] > 1.0:
            raise NoMirror(f"{child.name} has no image")
        image = others.pop(nearest)
        for joint, other in zip(child.joints, image.joints, strict=True):
            axis = (flip if joint.slide else -flip) * stance.axis(joint.name)
            found.joints[joint.name] = other.name, float(np.sign(axis @ stance.axis(other.name)))  # type: ignore[index]
        _match(tree, stance, child, image, flip, size, found)


def _distance(stance: Stance, one: Link, two: Link, flip: Array, size: float) -> float:
    """0 for a link and its image, above 1 for a link that is none."""
    if [joint.slide for joint in one.joints] != [joint.slide for joint in two.joints]:
        return 9.0
    worst = 0.0
    for joint, other in zip(one.joints, two.joints, strict=True):
        axis, away = stance.axis(other.name), flip * stance.anchor(joint.name) - stance.anchor(other.name)
        if abs(float(axis @ (flip * stance.axis(joint.name)))) < PARALLEL:
            return 9.0
        worst = max(worst, float(np.linalg.norm(away - (away @ axis) * axis)) / (NEAR * size))
    masses = sorted((one.inertial.mass, two.inertial.mass))
    if masses[1] - masses[0] > MASSES * masses[1] + 0.02:
        return 9.0
    com = flip * stance.place(one.name, one.inertial.com) - stance.place(two.name, two.inertial.com)
    return worst + 1e-3 * float(np.linalg.norm(com)) / size


def as_mirror(found: Reflection, joint_names: Sequence[str], feet: Sequence[Foot]) -> Mirror:
    """The reflection by prefixes and suffixes of names, or by whole names where those have no scheme."""
    images = {name: found.joints[name][0] for name in joint_names}
    for foot in feet:
        link = found.links[foot.link]
        images[foot.name] = next((other.name for other in feet if other.link == link), foot.name)
    flipped = [name for name in joint_names if found.joints[name][1] < 0.0]
    pairs: dict[str, str] = {}
    for name, image in images.items():
        if name != image:
            a, b = _prefixes(name, image)
            if b not in pairs:
                pairs.setdefault(a, b)
    if any(_image(name, pairs) != image for name, image in images.items()):
        pairs = {}
        for name, image in images.items():
            if name != image and image not in pairs:
                pairs[name] = image
        pairs |= {name: name for name, image in images.items() if name == image and _image(name, pairs) != name}
    return Mirror(axis=found.axis, pairs=pairs, flip=endings(flipped, joint_names))


def _image(name: str, pairs: Mapping[str, str]) -> str:
    swap = {**pairs, **{b: a for a, b in pairs.items()}}
    prefix = max((each for each in swap if name.startswith(each)), key=len, default="")
    return swap.get(prefix, "") + name[len(prefix) :]


def _prefixes(name: str, image: str) -> tuple[str, str]:
    """The differing beginnings of two names, up to the end of a word."""
    same = 0
    while same < min(len(name), len(image)) and name[-1 - same] == image[-1 - same]:
        same += 1
    rest = name[len(name) - same :]
    word = re.match(r"[A-Za-z0-9]*(?=_)", rest) if rest[:1].islower() or "_" in rest else None
    if rest[:1] != "_" and word is not None and len(word[0]) < len(rest):
        same -= len(word[0])
    return name[: len(name) - same], image[: len(image) - same]


def endings(some: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Endings that all of ``some`` have and no others of ``names``; the shortest ones that begin a word."""
    found: list[str] = []
    for name in some:
        if name.endswith(tuple(found)) and found:
            continue
        starts = [k for k in range(len(name) - 1, 0, -1) if name[k] == "_"] + [0]
        start = next(k for k in starts if all(each in some for each in names if each.endswith(name[k:])) or k == 0)
        found.append(name[start:])
    return tuple(dict.fromkeys(found))


KEPT = 0.7
"""Share of a joint's range that a mirror may leave of it at least."""


def narrowed(found: Reflection, limits: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """``limits`` that are their own mirror images. Raises :class:`NoMirror` if little is left of one."""
    narrow = dict(limits)
    for name, (image, sign) in found.joints.items():
        if name not in limits or image not in limits:
            continue
        low, high = sorted(sign * end for end in limits[image])
        narrow[name] = max(limits[name][0], low), min(limits[name][1], high)
        if narrow[name][1] - narrow[name][0] < KEPT * (limits[name][1] - limits[name][0]):
            own, other = (f"{ends[0]:.3g} to {ends[1]:.3g}" for ends in (limits[name], (low, high)))
            raise NoMirror(f"the range of {name} is {own} rad, and that of its image {image} asks for {other}")
    return narrow


def even(pose: Mapping[str, float], found: Reflection) -> dict[str, float]:
    """``pose`` and its mirror image in the mean."""
    return dict(pose) | {
        name: round((pose[name] + sign * pose[image]) / 2.0, 3)
        for name, (image, sign) in found.joints.items()
        if name in pose and image in pose
    }
