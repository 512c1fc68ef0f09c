"""Gains of a robot's drives, from the weight that its legs hold up and the inertia that each joint moves.

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

SCALE, POWER = 3.2, 0.8
PARTS = {"leg": (1.0, 0.03), "ankle": (0.2, 0.08), "trunk": (1.3, 0.025), "arm": (0.3, 0.1)}
"""Stiffness as a share of the leg's, and damping over stiffness [s]."""
ANKLE = 0.2
"""Distance of an ankle from its sole, at most, as a share of the leg's length."""
TRUNK = 0.2
"""Share of the mass from which a joint off the legs moves a part of the trunk."""
REACH = 2.5
"""Largest torque for one radian of error, in efforts."""
FASTEST = 2.0 * np.pi * 25.0
"""Largest natural frequency of a joint with its limb free [rad/s]."""
SAG = 0.3
"""Largest sag of an arm under its own weight [rad]."""
ALIKE = 0.06
"""Difference of stiffness up to which joints of one part have the same gains: the sides of a robot differ by grams."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Stiffness [N m/rad] and damping [N m s/rad] of a joint, and the part of the robot to which it belongs."""

    kp: float
    kd: float
    part: str


def find_gains(
    stance: Stance, legs: Sequence[Leg], efforts: Mapping[str, float], torques: Mapping[str, float], factor: float = 1.0
) -> tuple[dict[str, Gain], float]:
    """Gains of the joints in ``efforts`` in the pose of ``stance``, and X [N m/rad]; ``factor`` stiffens the legs."""
    tree, inertia, topple = stance.tree, stance.mass_matrix(), 0.0
    part: dict[str, str] = {}
    for leg in legs:
        sole = stance.sole(leg.foot)
        height = float(stance.place(tree.base)[2] - sole[2])
        reach = stance.jacobian(leg.foot.link, sole)
        straight = float(np.sum((stance.anchor(leg.hinges[0]) - sole)[[0, 2]] ** 2))  # cranks move the foot by less
        for name in leg.joints:
            dof = stance.dof[name]
            moved = inertia[dof, dof] + tree.mass / len(legs) * max(float(reach[:, dof] @ reach[:, dof]), straight)
            topple = max(topple, GRAVITY / height * moved)
            near = float(np.linalg.norm(stance.anchor(name) - sole)) < ANKLE * leg.length
            part[name] = "ankle" if near and len(leg.joints) > 3 else "leg"
    found: dict[str, Gain] = {}
    for name, effort in efforts.items():
        model, dof = stance.model, stance.dof[name]
        heavy = model.body_subtreemass[model.dof_bodyid[dof]] > TRUNK * tree.mass
        kind = part.get(name) or ("trunk" if heavy else "arm")
        scale, ratio = PARTS[kind]
        kp = SCALE * topple**POWER * scale * (factor if kind in ("leg", "ankle") else 1.0)
        if kind == "arm":
            kp = max(kp, abs(torques[name]) / SAG)
        kp = float(f"{min(kp, REACH * effort, float(inertia[dof, dof]) * FASTEST**2):.2g}")
        own = Gain(kp=kp, kd=float(f"{ratio * kp:.2g}"), part=kind)
        alike = (each for each in found.values() if each.part == kind and abs(each.kp - kp) <= ALIKE * each.kp)
        found[name] = next(alike, own)
    return found, topple
