"""Isaac Lab's actuator groups as our actuator laws, joint by joint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gaitway_tasks.robots import ActuatorLaw, DCMotor, ImplicitPD

from .config import Settings
from .errors import IsaacLabImportError
from .names import matching, values

NETWORKS = ("ActuatorNetLSTM", "ActuatorNetMLP")
PD = {"ImplicitActuator": "", "IdealPDActuator": "", "DelayedPDActuator": "its delay is not part of the bundle",
      "RemotizedPDActuator": "its delay and its angle-dependent torque limit are not part of the bundle"}  # fmt: skip
"""Actuators that are PD laws with a torque limit, and what of them a bundle does not carry."""


@dataclass(frozen=True)
class Fallback:
    """Actuator laws, by joint, for what a run leaves to its USD file or hides in a network; and whose they are."""

    laws: Mapping[str, ActuatorLaw]
    source: str

    def value(self, joint: str, key: str, where: str) -> float:
        found = getattr(self.laws.get(joint), key, None)
        if found is None:
            raise IsaacLabImportError(
                f"{where} has no {key} for {joint}, and {self.source}: name a known robot with --robot, or write the "
                f"number into env.yaml"
            )
        return float(found)


def map_actuators(
    scene: Settings, names: Sequence[str], fallback: Fallback, notes: list[str]
) -> dict[str, ActuatorLaw]:
    """The scene's actuator groups as laws over the joints ``names``; approximations are added to ``notes``."""
    groups: dict[str, ActuatorLaw] = {}
    driven: dict[str, str] = {}
    for group, node in scene.children("actuators").items():
        patterns = node.require("joint_names_expr", (str, list, tuple))
        joints = matching(patterns, names, f"{node.where}.joint_names_expr", preserve_order=False)
        if twice := [joint for joint in joints if joint in driven]:
            raise IsaacLabImportError(f"{node.where} drives {twice[0]}, as the group {driven[twice[0]]!r} does")
        driven |= dict.fromkeys(joints, group)
        groups |= _grouped(group, _laws(node, group, joints, fallback, notes))
    if left := [joint for joint in names if joint not in driven]:
        notes.append(f"{', '.join(left)}: in no actuator group of env.yaml; driven as {fallback.source} says")
        laws = {}
        for joint in left:
            fallback.value(joint, "stiffness", scene.where)
            laws[joint] = fallback.laws[joint]
        groups |= _grouped("others", laws)
    return groups


def _grouped(group: str, laws: Mapping[str, ActuatorLaw]) -> dict[str, ActuatorLaw]:
    """Joints of equal law together: one group keeps its name, several are numbered."""
    by_law: dict[ActuatorLaw, list[str]] = {}
    for joint, law in laws.items():
        by_law.setdefault(replace(law, joints=()), []).append(re.escape(joint))
    named = {(group if len(by_law) == 1 else f"{group}_{n}"): pair for n, pair in enumerate(by_law.items(), 1)}
    return {name: replace(law, joints=tuple(joints)) for name, (law, joints) in named.items()}


def _laws(
    node: Settings, group: str, joints: list[str], fallback: Fallback, notes: list[str]
) -> dict[str, ActuatorLaw]:
    function = node.require("class_type", str)
    kind = function.rpartition(":")[2]
    borrowed: set[str] = set()

    def value(joint: str, *keys: str) -> float:
        """The first of ``keys`` that the group sets for its joints, else the fallback's."""
        for key in keys:
            if key in node:
                return _of_joint(node, key, joints)[joint]
        borrowed.add(keys[0].removesuffix("_sim"))
        return fallback.value(joint, keys[0].removesuffix("_sim"), node.where)

    armature = _of_joint(node, "armature", joints) if "armature" in node else dict.fromkeys(joints, None)

    def common(joint: str, *effort: str) -> dict[str, Any]:
        return {
            "stiffness": value(joint, "stiffness"),
            "damping": value(joint, "damping"),
            "effort_limit": value(joint, *effort),
            "armature": armature[joint],
        }

    def motor(joint: str) -> DCMotor:
        limits: dict[str, Any] = {key: value(joint, key) for key in ("saturation_effort", "velocity_limit")}
        return DCMotor(**common(joint, "effort_limit"), **limits)

    laws: dict[str, ActuatorLaw]
    if kind in NETWORKS:
        laws = {joint: motor(joint) for joint in joints}
        gains = sorted({(law.stiffness, law.damping) for law in laws.values()})
        notes.append(
            f"actuators {group!r}: trained with a network ({node.get('network_file', str, '?').rpartition('/')[2]}); "
            f"here a DC motor with the network's limits and the gains of {fallback.source}, (kp, kd) = "
            f"{', '.join(f'({kp:g}, {kd:g})' for kp, kd in gains)}. Expect a worse verdict than with the real drive"
        )
        return laws
    if kind in ("DCMotor", "DelayedDCMotor"):
        laws = {joint: motor(joint) for joint in joints}
    elif kind in PD:
        effort = ("effort_limit_sim", "effort_limit") if kind == "ImplicitActuator" else ("effort_limit",)
        laws = {joint: ImplicitPD(**common(joint, *effort)) for joint in joints}
        if PD[kind]:
            notes.append(f"actuators {group!r}: a {kind}; {PD[kind]}")
    else:
        raise IsaacLabImportError(
            f"{node.where}.class_type is {function}: only {', '.join((*PD, 'DCMotor', *NETWORKS))} have an "
            f"equivalent here"
        )
    if borrowed:
        notes.append(f"actuators {group!r}: {', '.join(sorted(borrowed))} of {fallback.source}; env.yaml does not say")
    if any(v != 0.0 for key in ("friction", "viscous_friction") if key in node
           for v in _of_joint(node, key, joints).values()):  # fmt: skip
        notes.append(f"actuators {group!r}: joint friction is that of the model, not env.yaml's")
    return laws


def _of_joint(node: Settings, key: str, joints: list[str]) -> dict[str, float]:
    """A number for all joints, or a mapping of regular expressions; joints that none matches get 0, as in Isaac Lab."""
    value = node.require(key, (float, dict))
    if not isinstance(value, dict):
        return dict.fromkeys(joints, float(value))
    found = values(value, joints, f"{node.where}.{key}")
    return {joint: float(found.get(joint, 0.0)) for joint in joints}
