"""Mirror images of a tree: joints that a reflection of the base maps onto each other, by their places and axes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from gaitway_tasks.robots import Mirror

from .stance import Stance
from .tree import Array, Link, Tree

PARALLEL = 0.999  # least cosine between a joint's axis and its image's
NEAR = 0.004  # largest distance of a joint's axis from its image, as a share of the robot's height
MASSES = 0.15  # largest difference of two links' masses, as a share of the larger one
KEPT = 0.7  # least share of a joint's range that a mirror leaves


@dataclass(frozen=True, kw_only=True)
class Reflection:
    """Image of each joint with its sign, and of each link. ``axis`` is the base's that is reversed, "x" or "y"."""

    axis: str
    joints: dict[str, tuple[str, float]]
    links: dict[str, str]

    def evened(self, pose: Mapping[str, float]) -> dict[str, float]:
        """Mean of ``pose`` and its mirror image."""
        return dict(pose) | {
            name: round((pose[name] + sign * pose[image]) / 2.0, 3) for name, (image, sign) in self.joints.items()
        }

    def mirror(self, stance: Stance, joint_names: Sequence[str]) -> Mirror:
        images = {name: self.joints[name][0] for name in joint_names}
        names = {foot.link: foot.name for foot in stance.feet}
        images |= {name: names.get(self.links[link], name) for link, name in names.items()}
        flipped = [name for name in joint_names if self.joints[name][1] < 0.0]
        return _named(self.axis, images, endings(flipped, joint_names))


class NoMirror(Exception):
    """The reason why a reflection of the robot is not the robot."""


def find_reflections(stance: Stance, size: float, notes: list[str]) -> dict[str, Reflection]:
    """Reflections by title; front-back only on four feet or more. Makes limits alike on both sides."""
    found = {}
    for title, axis in (("left-right", "y"), ("front-back", "x"))[: 2 if len(stance.feet) > 2 else 1]:
        try:
            found[title] = _find(stance, axis, size)
            stance.tree = _narrowed(stance.tree, found[title])
        except NoMirror as reason:
            found.pop(title, None)
            notes.append(f"no mirror {title}: {reason}")
    return found


def _find(stance: Stance, axis: str, size: float) -> Reflection:
    stance.put(dict.fromkeys(stance.tree.joints, 0.0))
    flip = np.where(np.array(list("xyz")) == axis, -1.0, 1.0)
    found = Reflection(axis=axis, joints={}, links={})
    base = stance.tree.links[0]
    _match(stance, base, base, flip, size, found)
    return found


def _match(stance: Stance, one: Link, two: Link, flip: Array, size: float, found: Reflection) -> None:
    """Add the images of the links below ``one``, whose image is ``two``."""
    found.links[one.name] = two.name
    others = {link.name: link for link in stance.tree.children(two.name)}
    for child in stance.tree.children(one.name):
        far = {name: _distance(stance, child, other, flip, size) for name, other in others.items()}
        nearest = min(far, key=lambda name: far[name], default=None)
        if nearest is None or far[nearest] > 1.0:
            raise NoMirror(f"{child.name} has no image")
        image = others.pop(nearest)
        for joint, other in zip(child.joints, image.joints, strict=True):
            axis = (flip if joint.slide else -flip) * stance.axis(joint.name)
            found.joints[joint.name] = other.name, float(np.sign(axis @ stance.axis(other.name)))
        _match(stance, child, image, flip, size, found)


def _distance(stance: Stance, one: Link, two: Link, flip: Array, size: float) -> float:
    """Distance of a link from the image of another: near 0 for images, above 1 for others."""
    masses = sorted((one.inertial.mass, two.inertial.mass))
    if masses[1] - masses[0] > MASSES * masses[1] + 0.02:
        return np.inf
    if [joint.slide for joint in one.joints] != [joint.slide for joint in two.joints]:
        return np.inf
    worst = 0.0
    for joint, other in zip(one.joints, two.joints, strict=True):
        axis, away = stance.axis(other.name), flip * stance.anchor(joint.name) - stance.anchor(other.name)
        if abs(float(axis @ (flip * stance.axis(joint.name)))) < PARALLEL:
            return np.inf
        worst = max(worst, float(np.linalg.norm(away - (away @ axis) * axis)) / (NEAR * size))
    com = flip * stance.place(one.name, one.inertial.com) - stance.place(two.name, two.inertial.com)
    return worst + 1e-3 * float(np.linalg.norm(com)) / size


def _narrowed(tree: Tree, found: Reflection) -> Tree:
    """The tree with limits of driven joints that are their own mirror images."""
    limits = {name: tree.joints[name].limits for name in tree.driven}
    narrow = {}
    for name, (image, sign) in found.joints.items():
        own, other = limits.get(name), limits.get(image)
        if own is None or other is None:
            continue
        low, high = sorted(sign * end for end in other)
        narrow[name] = max(own[0], low), min(own[1], high)
        if narrow[name][1] - narrow[name][0] < KEPT * (own[1] - own[0]):
            raise NoMirror(
                f"the range of {name} is {own[0]:.3g} to {own[1]:.3g} rad, and that of its image {image} asks for "
                f"{low:.3g} to {high:.3g}"
            )
    return tree.with_joints("limits", narrow)


# ---- names ---------------------------------------------------------------------------------------------------------


def endings(some: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Endings that all of ``some`` have and no others of ``names``; the shortest ones that begin a word."""
    found: list[str] = []
    for name in some:
        if not name.endswith(tuple(found)):
            starts = [k for k in range(len(name) - 1, 0, -1) if name[k] == "_"]
            clear = (k for k in starts if all(each in some for each in names if each.endswith(name[k:])))
            found.append(name[next(clear, 0) :])
    return tuple(found)


def _named(axis: str, images: Mapping[str, str], flip: tuple[str, ...]) -> Mirror:
    """Mirror with pairs of prefixes that swap each name for its image, or of whole names where prefixes cannot."""
    swapped = {name: image for name, image in images.items() if name != image}
    pairs: dict[str, str] = {}
    for one, two in (_prefixes(name, image) for name, image in swapped.items()):
        if two not in pairs:
            pairs.setdefault(one, two)
    mirror = Mirror(axis=axis, pairs=pairs, flip=flip)
    if any(mirror.image(name) != image for name, image in images.items()):
        pairs = {name: image for name, image in swapped.items() if name < image}
        mirror = replace(mirror, pairs=pairs)
        alone = {name: name for name, image in images.items() if name == image != mirror.image(name)}
        mirror = replace(mirror, pairs=pairs | alone)
    return mirror


def _prefixes(name: str, image: str) -> tuple[str, str]:
    """The differing beginnings of two names, up to the end of a word."""
    same = 0
    while same < min(len(name), len(image)) and name[-1 - same] == image[-1 - same]:
        same += 1
    rest = name[len(name) - same :]
    word = re.match(r"[A-Za-z0-9]+(?=_)", rest) if rest[:1].islower() or "_" in rest else None
    same -= len(word[0]) if word else 0
    return name[: len(name) - same], image[: len(image) - same]
