"""Gains of a robot's drives, by the weight that its legs hold up and the inertia that each joint moves.

Gravity topples a robot of mass m on F feet, whose base is h above the ground, with g / h times the inertia of a foot's
share about a joint, in N m for every radian. A leg's stiffness follows this torque: kp = 3.2 X^0.8. The two numbers fit
the nine robots that Gaitway ships, from Unitree's A1 (13.7 kg, kp 25) to its H1 (51.6 kg, kp 150 to 200).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..mujoco.model import GRAVITY
from .pose import Leg
from .stance import Stance
from .tree import Tree

SCALE, POWER = 3.2, 0.8
PARTS = {"leg": (1.0, 0.03), "ankle": (0.2, 0.08), "trunk": (1.3, 0.025), "arm": (0.3, 0.1)}
"""Stiffness as a share of the leg's, and damping over stiffness [s]."""
ANKLE = 0.2
"""A joint within this share of a leg's length of its sole is an ankle."""
TRUNK = 0.2
"""A joint off the legs that carries this share of the mass is of the trunk."""
REACH = 2.5
"""Largest torque for one radian of error, in efforts."""
FASTEST = 2.0 * np.pi * 25.0
"""Largest natural frequency of a joint with its limb free [rad/s]."""
SAG = 0.3
"""Largest sag of an arm under its own weight [rad]."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Stiffness [N m/rad] and damping [N m s/rad] of a joint, and the part of the robot that it is of."""

    kp: float
    kd: float
    part: str


def gains(
    tree: Tree, stance: Stance, legs: Sequence[Leg], joints: Sequence[str], efforts: Mapping[str, float],
    torques: Mapping[str, float], factor: float = 1.0,
) -> tuple[dict[str, Gain], float]:  # fmt: skip
    """Gains of ``joints`` in the pose of ``stance``, and X [N m/rad]; ``factor`` stiffens the legs."""
    inertia, topple = stance.mass_matrix(), 0.0
    share = tree.mass / len(legs)
    part: dict[str, str] = {}
    for leg in legs:
        sole = stance.place(leg.foot.link, leg.foot.sole)
        height = float(stance.place(tree.links[0].name)[2] - sole[2])
        reach = stance.jacobian(leg.foot.link, sole)
        straight = float(np.sum((stance.anchor(leg.hinges[0]) - sole)[[0, 2]] ** 2))  # cranks move the foot by less
        for name in leg.joints:
            dof = stance.dof[name]
            moved = inertia[dof, dof] + share * max(float(reach[:, dof] @ reach[:, dof]), straight)
            topple = max(topple, GRAVITY / height * moved)
            near = float(np.linalg.norm(stance.anchor(name) - sole)) < ANKLE * leg.length
            part[name] = "ankle" if near and len(leg.joints) > 3 else "leg"
    carried = {
        joint.name: sum(each.inertial.mass for each in tree.below(link.name))
        for link in tree.links
        for joint in link.joints
    }
    found = {}
    for name in joints:
        kind = part.get(name) or ("trunk" if carried[name] > TRUNK * tree.mass else "arm")
        scale, ratio = PARTS[kind]
        kp = SCALE * topple**POWER * scale * (factor if kind in ("leg", "ankle") else 1.0)
        if kind == "arm":
            kp = max(kp, abs(torques[name]) / SAG)
        kp = min(kp, REACH * efforts[name], float(inertia[stance.dof[name], stance.dof[name]]) * FASTEST**2)
        found[name] = Gain(kp=_two_digits(kp), kd=_two_digits(ratio * kp), part=kind)
    for name in joints:  # the sides of a robot differ by grams, and its gains need not
        twin = next((other for other in found if other < name and _alike(found[other], found[name])), name)
        found[name] = found[twin]
    return found, topple


def _alike(one: Gain, two: Gain) -> bool:
    return one.part == two.part and abs(one.kp - two.kp) <= 0.06 * one.kp


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")
