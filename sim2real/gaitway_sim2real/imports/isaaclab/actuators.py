"""Conversion of Isaac Lab's actuator groups to Gaitway's actuator laws, joint by joint."""

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

SOLVER_EFFORT = ("joint_effort_limit", "effort_limit_sim")
MODEL_EFFORT = ("actuator_effort_limit", "effort_limit")
MODEL_SPEED = ("actuator_velocity_limit", "velocity_limit", "joint_velocity_limit", "velocity_limit_sim")
"""Limits by their names of 3.0, then of 2.x, which 3.0 reads too. A motor's speed is the solver's where it has none."""

FRICTION = ("friction", "dynamic_friction", "viscous_friction", "Fs", "Fd")
UNLIMITED = 1e9
"""Speed that stands for none in ``UnitreeActuatorCfg``."""


@dataclass(frozen=True)
class Fallback:
    """Actuator laws by joint, and their source, for values that a run leaves to its USD file or to a network."""

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
    """Groups of joints with equal laws: one group keeps its name, several are numbered."""
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

    def setting(joint: str, *keys: str) -> float | None:
        """The first of ``keys`` that the group sets for its joints."""
        return next((_of_joint(node, key, joints)[joint] for key in keys if key in node), None)

    def value(joint: str, name: str, *keys: str) -> float:
        """Value of the setting; if it is not set, the fallback's ``name``."""
        if (found := setting(joint, *keys or (name,))) is None:
            borrowed.add(name)
            return fallback.value(joint, name, node.where)
        return found

    armature = _of_joint(node, "armature", joints) if "armature" in node else dict.fromkeys(joints, None)

    def common(joint: str, *effort: str) -> dict[str, Any]:
        limits = [value(joint, "effort_limit", *effort)]
        if (solver := setting(joint, *SOLVER_EFFORT)) is not None:
            limits.append(solver)  # also clips the output of a network
        return {
            "stiffness": value(joint, "stiffness"),
            "damping": value(joint, "damping"),
            "effort_limit": min(limits),
            "armature": armature[joint],
        }

    def motor(joint: str) -> DCMotor:
        return DCMotor(
            **common(joint, *MODEL_EFFORT),
            saturation_effort=value(joint, "saturation_effort"),
            velocity_limit=value(joint, "velocity_limit", *MODEL_SPEED),
        )

    def unitree(joint: str) -> ActuatorLaw:
        """The torque-speed curve where it drives: ``Y1`` up to the speed ``X1``, from there down to 0 at ``X2``."""
        settings = common(joint, "Y1")
        knee, no_load = (setting(joint, key) or UNLIMITED for key in ("X1", "X2"))
        if no_load >= UNLIMITED:
            return ImplicitPD(**settings)
        if not knee < no_load:
            raise IsaacLabImportError(
                f"{node.where}: X1 of {joint} is {knee:g}; it must be below X2, which is {no_load:g}"
            )
        stall = value(joint, "effort_limit", "Y1") * no_load / (no_load - knee)
        return DCMotor(**settings, saturation_effort=stall, velocity_limit=no_load)

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
    elif kind == "UnitreeActuator":
        laws = {joint: unitree(joint) for joint in joints}
        notes.append(f"actuators {group!r}: a {kind}; its delay is not part of the bundle")
        if any(isinstance(law, DCMotor) for law in laws.values()):
            notes[-1] += "; a DC motor with its torque-speed curve (Y1, X1, X2), which brakes with at most Y1, not Y2"
    elif kind in PD:
        effort = (*SOLVER_EFFORT, "effort_limit") if kind == "ImplicitActuator" else MODEL_EFFORT
        laws = {joint: ImplicitPD(**common(joint, *effort)) for joint in joints}
        if PD[kind]:
            notes.append(f"actuators {group!r}: a {kind}; {PD[kind]}")
    else:
        known = ", ".join((*PD, "DCMotor", "UnitreeActuator", *NETWORKS))
        raise IsaacLabImportError(f"{node.where}.class_type is {function}: only {known} have an equivalent here")
    if borrowed:
        notes.append(f"actuators {group!r}: {', '.join(sorted(borrowed))} of {fallback.source}; env.yaml does not say")
    if any(v != 0.0 for key in FRICTION if key in node
           for v in _of_joint(node, key, joints).values()):  # fmt: skip
        notes.append(f"actuators {group!r}: joint friction is that of the model, not env.yaml's")
    return laws


def _of_joint(node: Settings, key: str, joints: list[str]) -> dict[str, float]:
    """A number for all joints, or a mapping of regular expressions; joints without a match get 0, as in Isaac Lab."""
    value = node.require(key, (float, dict))
    if not isinstance(value, dict):
        return dict.fromkeys(joints, float(value))
    found = values(value, joints, f"{node.where}.{key}")
    return {joint: float(found.get(joint, 0.0)) for joint in joints}
