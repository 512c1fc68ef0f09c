"""The robot of a description: one of Gaitway's or an MJCF, with the joints, gains and pose that the policy expects."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gaitway_files.patterns import matches
from gaitway_tasks.robots import ROBOTS, ActuatorLaw, ImplicitPD, Robot

from ..mujoco.own_model import OwnModel
from .description import Description
from .errors import PolicyImportError


@dataclass(frozen=True)
class FoundRobot:
    """The robot as the policy's bundle has it: the policy's joints first, then those that are held."""

    description: Description
    """Description with the robot's names of the joints."""
    robot: Robot
    held: tuple[str, ...]
    notes: tuple[str, ...]
    own_model: OwnModel | None = None
    """Keeps the file of ``robot.mjcf``, if it is one made for this import."""


def robot_of(d: Description, name: str | None = None, model: Path | None = None) -> FoundRobot:
    """The robot ``name``, that of the MJCF ``model``, or the one that fits, driven as the policy expects."""
    own = OwnModel(model) if model is not None else None
    base = own.robot if own is not None else _known(d, name)
    d = d.renamed(_same_joints(d.joints, base.joint_names))
    if unknown := [joint for joint in d.joints if joint not in base.joint_names]:
        raise PolicyImportError(
            f"{base.name} has no joint {', '.join(unknown)}, which the policy moves; its joints are "
            f"{', '.join(base.joint_names)}: give the policy's own model with --model robot.xml"
        )
    held = tuple(joint for joint in base.joint_names if joint not in d.joints)
    notes = [f"{', '.join(held)}: not known to the policy, held where the description says"] if held else []
    names = (*d.joints, *held)
    laws: dict[str, ActuatorLaw] = (
        {} if own is not None else dict(zip(base.joint_names, base.joint_actuators, strict=True))
    )
    pose = dict(zip(base.joint_names, base.default_joint_pos, strict=True)) if own is None else dict.fromkeys(held, 0.0)
    limits = dict(zip(base.joint_names, base.joint_limits, strict=True))
    efforts = own.effort_limits if own is not None else {joint: law.effort_limit for joint, law in laws.items()}
    drives = {
        joint: ImplicitPD(
            stiffness=d.stiffness[k],
            damping=d.damping[k],
            effort_limit=_effort(joint, d.effort_limit[k] if d.effort_limit else efforts.get(joint), base.name),
            armature=d.armature[k] if d.armature else getattr(laws.get(joint), "armature", None),
        )
        for k, joint in enumerate(d.joints)
    }
    if stronger := [joint for joint in d.joints if joint in efforts and drives[joint].effort_limit > efforts[joint]]:
        first = stronger[0]
        notes.append(
            f"torque limits above {base.name}'s for {len(stronger)} joints ({first}: "
            f"{drives[first].effort_limit:g} N m, its own {efforts[first]:g}): the weaker ones are used"
        )
        drives |= {j: dataclasses.replace(drives[j], effort_limit=efforts[j]) for j in stronger}
    for joint in held:
        drives[joint] = _holding(d, joint, laws.get(joint), efforts.get(joint), base.name)
        if (at := _matching(d.held.position, joint)) is not None:
            pose[joint] = at
    pose |= dict(zip(d.joints, d.default_joint_pos, strict=True))
    feet = base.foot_names if own is None else own.feet(pose)
    robot = base.replace(
        foot_names=feet,
        joint_names=names,
        default_joint_pos=tuple(pose[joint] for joint in names),
        joint_limits=tuple(limits[joint] for joint in names),
        init_height=d.init_height or base.init_height,
        actuators=_groups(drives),
    )
    return FoundRobot(d, robot, held, tuple(notes), own)


def _same_joints(joints: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """The robot's name of each joint that differs in capitals or in the ending ``_joint`` alone."""
    plain: dict[str, list[str]] = {}
    for name in known:
        plain.setdefault(_plain(name), []).append(name)
    return {joint: plain[_plain(joint)][0] for joint in joints if len(plain.get(_plain(joint), ())) == 1}


def _plain(joint: str) -> str:
    return joint.lower().removesuffix("_joint")


class OtherRobot(PolicyImportError):
    """A policy of none of Gaitway's robots, imported without a model."""


def _known(d: Description, name: str | None) -> Robot:
    if name is not None:
        if name not in ROBOTS:
            raise PolicyImportError(f"--robot {name!r} is not known; known robots are {', '.join(ROBOTS)}")
        return ROBOTS[name]
    joints = set(map(_plain, d.joints))
    fitting = [robot for robot in ROBOTS.values() if joints <= set(map(_plain, robot.joint_names))]
    if named := [robot for robot in fitting if robot.name == d.robot]:
        return named[0]
    exact = [robot for robot in fitting if len(robot.joint_names) == len(d.joints)] or fitting
    if len(exact) == 1:
        return exact[0]
    if exact:
        raise PolicyImportError(
            f"the policy's joints are those of {', '.join(robot.name for robot in exact)}: name one with --robot"
        )
    raise OtherRobot(
        f"none of the robots known here ({', '.join(ROBOTS)}) has the joints {', '.join(d.joints)}: give the robot's "
        f"MJCF with --model robot.xml"
    )


def _holding(d: Description, joint: str, law: ActuatorLaw | None, effort: float | None, robot: str) -> ImplicitPD:
    """The drive of a joint that the policy does not move: the description's, else the robot's own."""
    values: dict[str, float] = {}
    for key in ("stiffness", "damping"):
        value = _matching(getattr(d.held, key), joint)
        value = getattr(law, key, None) if value is None else value
        if value is None:
            raise PolicyImportError(
                f"{robot} has the joint {joint}, which the policy does not move: say in the description how it is "
                f"held, under held: {key}: {{{re.escape(joint)}: ...}}, or give a model without it"
            )
        values[key] = value
    effort = _matching(d.held.effort_limit, joint) or effort
    return ImplicitPD(
        stiffness=values["stiffness"],
        damping=values["damping"],
        effort_limit=_effort(joint, effort, robot),
        armature=getattr(law, "armature", None),
    )


def _matching(values: Mapping[str, float], joint: str) -> float | None:
    """The value of the first pattern that matches."""
    return next((value for pattern, value in values.items() if matches(pattern, joint)), None)


def _effort(joint: str, value: float | None, robot: str) -> float:
    if not value:
        raise PolicyImportError(
            f"neither the policy nor {robot} says how strong {joint} is: add effort_limit [N m] to the description"
        )
    return float(value)


def _groups(drives: dict[str, ImplicitPD]) -> dict[str, ActuatorLaw]:
    """Joints that are driven alike as groups."""
    alike: dict[ImplicitPD, list[str]] = {}
    for joint, law in drives.items():
        alike.setdefault(dataclasses.replace(law, joints=()), []).append(re.escape(joint))
    return {f"group_{k}": dataclasses.replace(law, joints=tuple(j)) for k, (law, j) in enumerate(alike.items())}
