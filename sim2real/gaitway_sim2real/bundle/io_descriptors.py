"""Describe a task's actions and observations in the form of Isaac Lab's ``export_IO_descriptors``.

For tools that read those files. A term or action that is Isaac Lab's own goes under its name, path and units there, so
that such a tool finds the function. Joints are in the bundle's canonical order, which is not PhysX's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gaitway_tasks.actions import joint_positions
from gaitway_tasks.mdp import observations
from gaitway_tasks.signals import signals_of
from gaitway_tasks.spec import ObservationGroup, ObservationTerm, Task
from gaitway_tasks.vocabulary import OBSERVATIONS, SIGNALS

AXES = ["X", "Y", "Z"]
KINDS = {signal.input or name: signal.type for name, signal in SIGNALS.items() if signal.input or signal.measured}
ISAACLAB_OBSERVATIONS = "isaaclab.envs.mdp.observations"
ISAACLAB_ACTION = "isaaclab.envs.mdp.actions.joint_actions.JointPositionAction"
STOCK = {name: row for name, row in OBSERVATIONS.items() if name in row.isaaclab}
"""Isaac Lab's functions that ours of the same name compute the same as."""


def io_descriptors(
    task: Task, term_dims: dict[str, int], *, armature: Sequence[float], friction: Sequence[float]
) -> dict[str, Any]:
    """The four sections: actions, articulations, observations, scene.

    ``term_dims`` is the size of each term of the policy group; ``armature`` [kg m^2] and ``friction`` [N m] are the
    model's, per joint; a drive with an armature of its own replaces the model's.
    """
    robot, group = task.robot, task.observations["policy"]
    action = joint_positions(task)
    joints, clips, acting = list(robot.joint_names), action.clips(robot), action.acting(robot)
    drives = [law.armature for law in robot.joint_actuators]
    return {
        "actions": [
            {
                "action_type": "JointAction",
                "clip": None if clips is None else [list(clips[joint]) for joint in acting],
                "dtype": "torch.float32",
                "extras": {"description": "Joint position targets [rad]: offset + scale * action."},
                "full_path": ISAACLAB_ACTION,
                "joint_names": [joints[joint] for joint in acting],
                "mdp_type": "Action",
                "name": "joint_position_action",
                "offset": [action.offsets(robot)[joint] for joint in acting],
                "scale": _one_or_all(tuple(action.scales(robot)[joint] for joint in acting)),
                "shape": [len(acting)],
            }
        ],
        "articulations": {
            "robot": {
                "default_joint_armature": [
                    model if drive is None else drive for model, drive in zip(armature, drives, strict=True)
                ],
                "default_joint_damping": [law.damping for law in robot.joint_actuators],
                "default_joint_friction": list(friction),
                "default_joint_pos": list(robot.default_joint_pos),
                "default_joint_pos_limits": [list(limits) for limits in robot.joint_limits],
                "default_joint_stiffness": [law.stiffness for law in robot.joint_actuators],
                "default_joint_vel": [0.0] * robot.num_joints,
                "joint_names": joints,
            }
        },
        "observations": {
            "policy": [
                _observation(name, term, group, term_dims[name], joints) | _offsets(task, term)
                for name, term in group.terms.items()
            ]
        },
        "scene": {
            "decimation": task.timing.decimation,
            "dt": task.timing.step_dt,
            "physics_dt": task.timing.physics_dt,
        },
    }


def _one_or_all(values: tuple[float, ...]) -> float | list[float]:
    return values[0] if len(set(values)) == 1 else list(values)


def _observation(
    name: str, term: ObservationTerm, group: ObservationGroup, dim: int, joints: list[str]
) -> dict[str, Any]:
    function = getattr(term.func, "__name__", name)
    text = " ".join((term.func.__doc__ or "").split())
    unit = re.search(r"\[([^\]]+)\]", text)
    signal = next((signal for signal in sorted(signals_of(term.func)) if signal in KINDS), "")
    module, kind, units = term.func.__module__, KINDS.get(signal, "Sensor"), unit[1] if unit else None
    if term.func is getattr(observations, function, None) and function in STOCK:
        row = STOCK[function]
        module, kind, units = ISAACLAB_OBSERVATIONS, SIGNALS[row.signal].type, row.unit
    vector = {"axes": AXES} if kind == "RootState" and dim == 3 else {}
    per_joint = {"joint_names": joints} if kind == "JointState" else {}
    scale = list(term.scale) if isinstance(term.scale, tuple) else term.scale
    return {
        "dtype": "torch.float32",
        "extras": vector | {"description": text, "modifiers": None, "term": name, "units": units},
        "full_path": f"{module}.{function}",
        "mdp_type": "Observation",
        "name": function,
        "observation_type": kind,
        "overloads": {
            "clip": None if term.clip is None else list(term.clip),
            "flatten_history_dim": True,
            "history_length": group.history_length if group.history_length > 1 else 0,
            "scale": None if scale == 1.0 else scale,
        },
        "shape": [dim],
    } | per_joint


def _offsets(task: Task, term: ObservationTerm) -> dict[str, Any]:
    """Offsets that relative joint terms subtract."""
    if term.func is observations.joint_pos_rel:
        return {"joint_pos_offsets": list(task.robot.default_joint_pos)}
    if term.func is observations.joint_vel_rel:
        return {"joint_vel_offsets": [0.0] * task.robot.num_joints}
    return {}


def raw_observation(name: str, signal: str, dim: int, elements: Sequence[str] | None) -> dict[str, Any]:
    """A signal as a policy reads it that assembles its own observation; ``elements`` are its joints, if it has any."""
    kind = KINDS.get(signal, "Sensor")
    vector = {"axes": AXES} if kind == "RootState" and dim == 3 else {}
    return {
        "dtype": "torch.float32",
        "extras": vector | {"description": f"The signal {signal}.", "modifiers": None, "term": name, "units": None},
        "full_path": None,
        "mdp_type": "Observation",
        "name": name,
        "observation_type": kind,
        "overloads": {"clip": None, "flatten_history_dim": True, "history_length": 0, "scale": None},
        "shape": [dim],
    } | ({"joint_names": list(elements)} if kind == "JointState" and elements else {})
