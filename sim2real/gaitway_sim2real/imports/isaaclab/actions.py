"""Conversion of Isaac Lab's joint position actions and velocity command to Gaitway's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gaitway_tasks.actions import JointPositionAction
from gaitway_tasks.commands import TWIST
from gaitway_tasks.mdp.commands import UniformVelocityCommand

from .config import Settings
from .errors import IsaacLabImportError
from .names import matching, values

FIX_ACTION = (
    "only JointPositionAction of isaaclab.envs.mdp can be exported: a bundle's output is joint position targets"
)
FIX_COMMAND = (
    "only UniformVelocityCommand of isaaclab.envs.mdp and classes with its settings can be exported: a bundle carries "
    "one velocity command"
)


@dataclass(frozen=True)
class PolicyAction:
    """The policy's output in Gaitway's terms."""

    action: JointPositionAction
    joints: dict[str, list[str]]
    """Joints of each action term, in the order of the policy's numbers."""

    @property
    def order(self) -> list[str]:
        """Joint of each policy output."""
        return [joint for joints in self.joints.values() for joint in joints]


def robot_asset(env: Settings) -> str:
    """Scene name of the asset that the first action term moves."""
    for term in env.children("actions").values():
        return str(term.get("asset_name", str, "robot"))
    raise IsaacLabImportError(f"{env.where} has no action term: only manager-based tasks can be imported")


ACTIONS = (
    "JointPositionAction", "OrderedJointPositionAction", "DelayedJointPositionAction", "ClampedJointPositionAction"
)  # fmt: skip
"""Isaac Lab's own and those of Gaitway's tasks in it; the second was the first's name there."""
COMMANDS = ("UniformVelocityCommand", "VelocityCommand", "ZeroAxisVelocityCommand", "UniformThresholdVelocityCommand")
"""Isaac Lab's own, those of Gaitway's tasks in it, and Robot Lab's, which sets slow linear commands to 0."""

THRESHOLD = 0.2
"""Speed in Robot Lab's code [m/s]; no setting has it."""


def map_actions(
    env: Settings, asset: str, default_pose: dict[str, float], raw_clip: float | None, problems: list[str]
) -> PolicyAction:
    """All action terms as one :class:`JointPositionAction` over the joints of ``default_pose`` ({name: rad}, ordered).

    Joints that no term moves keep the target 0 that Isaac Lab gives them. ``raw_clip`` is rsl_rl's ``clip_actions``.
    Terms that cannot be mapped are added to ``problems``.
    """
    names = list(default_pose)
    joints: dict[str, list[str]] = {}
    scale, offset = dict.fromkeys(names, 1.0), dict.fromkeys(names, 0.0)
    clip: dict[str, tuple[float, float]] = {}
    taken: dict[str, str] = {}
    for name, term in env.children("actions").items():
        function = term.require("class_type", str)
        if function.rpartition(":")[2] not in ACTIONS:
            problems.append(f"action term {name!r}: {function} is not known")
            continue
        if (moved := term.get("asset_name", str, "robot")) != asset:
            problems.append(f"action term {name!r}: moves {moved!r}, and another term {asset!r}")
            continue
        patterns = term.require("joint_names", (str, list, tuple))
        own = matching(
            patterns, names, f"{term.where}.joint_names", preserve_order=term.get("preserve_order", bool, False)
        )
        if twice := [joint for joint in own if joint in taken]:
            problems.append(f"action term {name!r}: moves {twice[0]!r}, as {taken[twice[0]]!r} does")
            continue
        if (clamp := term.get("raw_clip", float)) is not None:
            raw_clip = clamp if raw_clip is None else min(raw_clip, clamp)
        taken |= dict.fromkeys(own, name)
        joints[name] = own
        scale |= _values(term, "scale", own, 1.0)
        at_default = term.get("use_default_offset", bool, True)
        offset |= {j: default_pose[j] for j in own} if at_default else _values(term, "offset", own, 0.0)
        clip |= {j: (float(low), float(high)) for j, (low, high) in values(
            term.get("clip", dict, {}), own, f"{term.where}.clip").items()}  # fmt: skip
    uniform = set(scale.values())
    action = JointPositionAction(
        scale=uniform.pop() if len(uniform) == 1 else _exact(scale),
        offset=None if offset == default_pose else _exact(offset),
        clip=_exact(clip) or None,
        raw_clip=raw_clip,
    )
    return PolicyAction(action, joints)


def _values(term: Settings, key: str, joints: list[str], missing: float) -> dict[str, float]:
    """``scale`` or ``offset`` of each joint: a number for all, or a mapping of regular expressions."""
    value = term.get(key, (float, dict), missing)
    if not isinstance(value, dict):
        return dict.fromkeys(joints, float(value))
    found = values(value, joints, f"{term.where}.{key}")
    return {joint: float(found.get(joint, missing)) for joint in joints}


def _exact(by_joint: dict[str, Any]) -> dict[str, Any]:
    return {re.escape(joint): value for joint, value in by_joint.items()}


def map_command(
    env: Settings, read: tuple[str, ...], problems: list[str], notes: list[str]
) -> dict[str, UniformVelocityCommand]:
    """The one velocity command that the policy's terms ``read``, with the widest ranges of its curriculum."""
    present = env.children("commands") if "commands" in env else {}
    if len(read) > 1:
        problems.append(f"the policy reads {len(read)} commands ({', '.join(read)}): a bundle carries one")
        return {}
    if not read:
        problems.append("no observation term reads a command: a bundle is for policies that follow a velocity")
        return {}
    name = read[0]
    if name not in present:
        problems.append(f"command {name!r}: env.yaml has {', '.join(present) or 'none'}")
        return {}
    term = present[name]
    function = term.require("class_type", str)
    kind = function.rpartition(":")[2]
    ranges = term.child("limit_ranges" if "limit_ranges" in term else "ranges")
    if not all(axis in ranges for axis in TWIST):
        problems.append(f"command {name!r}: {function} is not known")
        return {}
    if kind not in COMMANDS:
        notes.append(
            f"command {name!r}: {function} is not known; read as a UniformVelocityCommand, whose ranges it has"
        )
    if kind == "UniformThresholdVelocityCommand":
        notes.append(
            f"command {name!r}: linear velocities up to {THRESHOLD:g} m/s were set to 0 in training; the policy knows "
            f"no slower walk"
        )
    curriculum = env.children("curriculum") if "curriculum" in env else {}
    if "limit_ranges" in term:
        notes.append(f"command {name!r}: its limit_ranges, which the run's curriculum may not have reached")
    elif widened := [key for key, level in curriculum.items() if re.search("command|cmd", level.get("func", str, ""))]:
        notes.append(f"command {name!r}: env.yaml's ranges, which the run's curriculum ({', '.join(widened)}) changes")

    def pair(key: str) -> tuple[float, float]:
        low, high = ranges.require(key, (tuple, list))
        return float(low), float(high)

    circle = UniformVelocityCommand().heading
    low, high = term.get("resampling_time_range", (tuple, list), (10.0, 10.0))
    return {
        name: UniformVelocityCommand(
            resampling_time_range=(float(low), float(high)),
            rel_standing_envs=float(term.get("rel_standing_envs", float, 0.0)),
            rel_heading_envs=float(term.get("rel_heading_envs", float, 1.0)),
            rel_zero_axis=float(term.get("rel_zero_axis", float, 0.0)),
            heading_command=bool(term.get("heading_command", bool, False)),
            heading_control_stiffness=float(term.get("heading_control_stiffness", float, 1.0)),
            lin_vel_x=pair("lin_vel_x"),
            lin_vel_y=pair("lin_vel_y"),
            ang_vel_z=pair("ang_vel_z"),
            heading=pair("heading") if "heading" in ranges else circle,
        )
    }
