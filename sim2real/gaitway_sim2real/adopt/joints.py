"""Joints of a robot: those that are held still, and the order of those that a policy commands."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from gaitway_files.patterns import matches

from .tree import AdoptError, Foot, Tree

LIGHT = 0.005  # share of the robot's mass below which a joint off the legs moves a finger
FOLLOW = "they follow other joints"


def held_joints(
    tree: Tree, feet: Sequence[Foot], pose: Mapping[str, float], hold: Sequence[str], move: Sequence[str],
    notes: list[str],
) -> dict[str, float]:  # fmt: skip
    """Positions of joints that become rigid: arms of a robot on four feet, fingers, slides, followers.

    ``pose`` are positions that the user gives, ``hold`` and ``move`` patterns of joints.
    """
    legs = {name for foot in feet for name in tree.limb(foot.link)}
    found: dict[str, list[str]] = {}
    for link in tree.links:
        light = tree.mass_below(link.name) < LIGHT * tree.mass
        for joint in link.joints:
            name, many = joint.name, len(feet) > 2
            if name in tree.followers and name in legs:
                raise AdoptError(
                    f"{tree.path}: joint {name!r} of a leg follows another joint: write the rods that move it, or "
                    "leave its <mimic> or <equality> out, so that it has a motor of its own"
                )
            if _any(hold, name):
                why = "as --hold says"
            elif name in tree.followers:
                why = FOLLOW
            elif name in legs or _any(move, name):
                continue
            elif many and name in tree.driven:
                why = "not of a leg, and a robot on four feet or more walks without them"
            elif joint.slide or light:
                why = "fingers and slides: they move too little to matter for walking"
            elif many and name not in tree.driven and not np.any(joint.stiffness):
                why = "without a motor"
            else:
                continue
            found.setdefault(why, []).append(name)
    for why, names in found.items():
        notes.append(f"held still: {', '.join(names)} ({why}){'; --move REGEX moves them' * (why != FOLLOW)}")
    neutral = tree.neutral() | dict(pose)
    return {name: neutral[name] for names in found.values() for name in names}


def joint_order(tree: Tree, feet: Sequence[Foot], notes: list[str]) -> list[str]:
    """Joints with motors: leg by leg, then the others as in the file."""
    legs = [name for foot in feet for name in tree.limb(foot.link)]
    names = list(dict.fromkeys(name for name in (*legs, *tree.joints) if name in tree.driven))
    if passive := [name for name in tree.joints if name not in tree.driven]:
        notes.append(f"without a motor: {', '.join(passive)}: they move, and no policy commands them")
    if endless := [name for name in names if tree.joints[name].limits is None]:
        notes.append(f"no limits: {', '.join(endless)}: three half turns each way")
    return names


def _any(patterns: Collection[str], name: str) -> bool:
    return any(matches(pattern, name) for pattern in patterns)
