"""Motors of a robot: torques from the file or the user, rotors that fit them, and actuator laws."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gaitway_tasks.robots.robot import ActuatorLaw, DCMotor, ImplicitPD

from ..mujoco.model import GRAVITY
from .gains import Gain
from .names import by_name, endings
from .tree import AdoptError, Tree

ROTOR = 2.5e-4
"""Armature of a motor for its effort [kg m^2 / (N m)]: Go2 4.2e-4, ANYmal 2.5e-4, G1 1.2e-4 to 2.5e-4, H1 3.3e-4."""
STRONGEST = 8.0
"""Placeholder for an effort, in the robot's weight times its height; real legs have a quarter to one."""


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
