"""Motors of a robot: torques from the file or the user, rotors that fit them, gains, and actuator laws.

Gravity topples a robot of mass m on F feet, whose base is h above the ground, with g / h times the inertia of a foot's
share about a joint, in N m for every radian. A leg's stiffness follows this torque: kp = 3.2 X^0.8. The two numbers fit
the nine robots that Gaitway ships, from Unitree's A1 (13.7 kg, kp 25) to its H1 (51.6 kg, kp 150 to 200).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.patterns import matches
from gaitway_tasks.robots.robot import ActuatorLaw, DCMotor, ImplicitPD

from ..mujoco.model import GRAVITY
from .mirrors import endings
from .pose import Leg
from .stance import Stance
from .tree import AdoptError, Tree

T = TypeVar("T")
ROTOR = 2.5e-4
"""Armature of a motor for its effort [kg m^2 / (N m)]: Go2 4.2e-4, ANYmal 2.5e-4, G1 1.2e-4 to 2.5e-4, H1 3.3e-4."""
STRONGEST = 8.0  # placeholder for an effort, in the robot's weight times its height; real legs have a quarter to one
SCALE, POWER = 3.2, 0.8
PARTS = {"leg": (1.0, 0.03), "ankle": (0.2, 0.08), "trunk": (1.3, 0.025), "arm": (0.3, 0.1)}
"""Stiffness as a share of the leg's, and damping over stiffness [s]."""
ANKLE = 0.2  # distance of an ankle from its sole, at most, as a share of the leg's length
TRUNK = 0.2  # share of the mass from which a joint off the legs moves a part of the trunk
REACH = 2.5  # largest torque for one radian of error, in efforts
FASTEST = 2.0 * np.pi * 25.0  # largest natural frequency of a joint with its limb free [rad/s]
SAG = 0.3  # largest sag of an arm under its own weight [rad]
ALIKE = 0.06
"""Difference of stiffness up to which joints of one part have the same gains: the sides of a robot differ by grams."""


def find_efforts(tree: Tree, joints: Sequence[str], size: float, given: Mapping[str, float]) -> dict[str, float]:
    """Largest torque of each joint's motor [N m]; ``given`` {pattern: torque} is the user's."""
    most = STRONGEST * tree.mass * GRAVITY * size
    absurd = [value for name, value in tree.efforts.items() if name in joints and value > most]
    found = {name: value for name, value in tree.efforts.items() if name in joints and value <= most}
    found |= by_name(given, joints, "--effort")
    if missing := [name for name in joints if name not in found]:
        why = f" ({max(absurd):g} N m is no motor of a robot of {tree.mass:.3g} kg)" if absurd else ""
        raise AdoptError(
            f"{tree.path} does not say how strong the motors of {', '.join(missing)} are{why}: give their largest "
            "torque in N m, as --effort 'REGEX=N', such as --effort '.*=20'"
        )
    return {name: found[name] for name in joints}


def with_rotors(tree: Tree, efforts: Mapping[str, float], given: Mapping[str, float], notes: list[str]) -> Tree:
    """The tree with an armature for each motor: the file's, the user's, or one that fits the motor's torque."""
    told = by_name(given, list(efforts), "--armature")
    bare = {name: float(f"{ROTOR * effort:.2g}") for name, effort in efforts.items()}
    bare = {name: value for name, value in bare.items() if tree.joints[name].armature == 0.0 and name not in told}
    if bare:
        notes.append(
            f"armature: {min(bare.values()):.2g} to {max(bare.values()):.2g} kg m^2 where the file has none, {ROTOR:g} "
            "for each N m of effort, as geared motors have; --armature REGEX=N says better"
        )
    return tree.with_joints("armature", told | bare)


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


def actuators(tree: Tree, found: Mapping[str, Gain], efforts: Mapping[str, float]) -> dict[str, ActuatorLaw]:
    """Laws of groups of joints alike, by part of the robot. A joint with a largest speed has a DC motor."""
    groups: dict[tuple[Gain, float, float | None], list[str]] = {}
    for name, gain in found.items():
        groups.setdefault((gain, float(f"{efforts[name]:.5g}"), tree.velocities.get(name)), []).append(name)
    laws: dict[str, ActuatorLaw] = {}
    for (gain, effort, speed), names in groups.items():
        count = sum(title.partition("_")[0] == gain.part for title in laws)
        ends = endings(names, list(found))
        patterns = tuple(re.escape(end) if end in names else f".*{re.escape(end)}" for end in ends)
        law = ImplicitPD(
            stiffness=gain.kp, damping=gain.kd, effort_limit=effort, joints=patterns if len(groups) > 1 else (".*",)
        )
        motor = law if speed is None else DCMotor(**vars(law), saturation_effort=effort, velocity_limit=speed)
        laws[f"{gain.part}_{count + 1}" if count else gain.part] = motor
    return laws


def by_name(values: Mapping[str, T], names: Sequence[str], option: str) -> dict[str, T]:
    """Value of each joint that a pattern matches; the first pattern counts. ``option`` is named in refusals."""
    found: dict[str, T] = {}
    for pattern, value in values.items():
        matching = [name for name in names if matches(pattern, name)]
        if not matching:
            raise UserError(f"{option} {pattern}: no joint that moves has such a name; there are {', '.join(names)}")
        found = dict.fromkeys(matching, value) | found
    return found
