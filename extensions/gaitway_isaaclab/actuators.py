"""The task's actuator laws as Isaac Lab's actuator models."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from pathlib import Path
from typing import Any

from gaitway_tasks.actuator_network import check_network, read_network, write_torchscript
from gaitway_tasks.mdp import events
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters
from gaitway_tasks.robots.robot import ActuatorLaw, DCMotor, Robot
from gaitway_tasks.spec import Task
from isaaclab.actuators import (
    ActuatorNetLSTMCfg,
    ActuatorNetMLPCfg,
    DCMotorCfg,
    DelayedPDActuatorCfg,
    ImplicitActuatorCfg,
)
from isaaclab.actuators.actuator_pd import DCMotor as IsaacDCMotor
from isaaclab.actuators.actuator_pd import DelayedPDActuator
from isaaclab.utils import configclass
from torch import nn

from .cache import cache_folder
from .compat import IsaacLabError


class DelayedDCMotor(DelayedPDActuator, IsaacDCMotor):
    """``DelayedPDActuator`` in front of a ``DCMotor``: one late command, drawn anew at each reset."""


@configclass
class DelayedDCMotorCfg(DelayedPDActuatorCfg, DCMotorCfg):
    class_type: type = DelayedDCMotor


def actuator_cfgs(task: Task) -> dict[str, Any]:
    """One ``ActuatorBaseCfg`` for each group of the robot's actuators."""
    robot, delay = task.robot, action_delay(task)
    if robot.parameters is None:
        return {name: _actuator_cfg(law, delay) for name, law in robot.actuators.items()}
    _check_parameters(robot.parameters)
    network = robot.parameters.actuator_network
    cfgs: dict[str, Any] = {}
    for name, (law, joint) in _identified_groups(robot).items():
        if network is None:
            cfgs[name] = _actuator_cfg(law, delay)
        else:
            cfgs[name] = _network_cfg(law, network, task)
        if joint.friction is not None:
            cfgs[name].friction = cfgs[name].dynamic_friction = joint.friction
        if joint.viscous is not None:
            cfgs[name].viscous_friction = joint.viscous
    return cfgs


def _check_parameters(parameters: RobotParameters) -> None:
    if parameters.base_mass is not None or parameters.base_com is not None:
        raise IsaacLabError(
            "identified base_mass and base_com are not put into Isaac Lab's assets: take them out of the parameter "
            "file, or train in MuJoCo"
        )


def _identified_groups(robot: Robot) -> dict[str, tuple[ActuatorLaw, JointParameters]]:
    """Joints of one law and one friction together; a group of the robot's that falls apart is numbered."""
    assert robot.parameters is not None
    alike: dict[str, dict[tuple[Any, ...], list[str]]] = {}
    for name, told, real in zip(robot.joint_names, robot.joint_actuators, robot.real_actuators, strict=True):
        group = next(key for key, law in robot.actuators.items() if law is told)
        found = robot.parameters.joints.get(name, JointParameters())
        if robot.parameters.actuator_network is not None:  # which has gains and strength in it
            real = dataclasses.replace(told, armature=real.armature)
        alike.setdefault(group, {}).setdefault((real, found.friction, found.viscous), []).append(name)
    groups = {}
    for group, kinds in alike.items():
        for number, ((law, friction, viscous), joints) in enumerate(kinds.items(), 1):
            name = group if len(kinds) == 1 else f"{group}_{number}"
            named = dataclasses.replace(law, joints=tuple(re.escape(joint) for joint in joints))
            groups[name] = named, JointParameters(friction=friction, viscous=viscous)
    return groups


def _network_cfg(law: ActuatorLaw, path: str, task: Task) -> Any:
    """Isaac Lab's own network drive on the same weights, as the TorchScript that it loads."""
    network, described = read_network(path)
    check_network(described, task.robot, task.timing.physics_dt, path)
    if not isinstance(law, DCMotor):
        raise IsaacLabError(f"{path}: Isaac Lab's network drives have a motor's torque-speed line, and {law} has none")
    settings: dict[str, Any] = {
        "joint_names_expr": list(law.joints),
        "network_file": str(_torchscript(network, path)),
        "effort_limit": law.effort_limit,
        "saturation_effort": law.saturation_effort,
        "velocity_limit": law.velocity_limit,
        "armature": law.armature,
    }
    if described.kind == "lstm":
        return ActuatorNetLSTMCfg(**settings)
    return ActuatorNetMLPCfg(
        pos_scale=described.pos_scale,
        vel_scale=described.vel_scale,
        torque_scale=described.torque_scale,
        input_order=described.input_order,
        input_idx=list(described.input_idx),
        **settings,
    )


def _torchscript(network: nn.Module, path: str) -> Path:
    """The network's file in the user's cache, written anew so that nothing else can be in it."""
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    folder = cache_folder() / "networks"
    folder.mkdir(parents=True, exist_ok=True)
    return write_torchscript(network, folder / f"{digest[:16]}.pt")


def action_delay(task: Task) -> tuple[int, int] | None:
    """Fewest and most physics steps of the task's action delay; None without one.

    Raises :class:`IsaacLabError` for a delay that is not drawn at each reset, which is when Isaac Lab draws it.
    """
    for name, event in task.events.items():
        if event.func is events.randomize_action_delay:
            if event.mode != "reset":
                raise IsaacLabError(
                    f"event {name!r}: Isaac Lab draws delays at resets only, so its mode must be 'reset'"
                )
            low, high = (round(limit / task.timing.physics_dt) for limit in event.params["delay_range"])
            return low, high
    return None


def _actuator_cfg(law: ActuatorLaw, delay: tuple[int, int] | None) -> Any:
    settings: dict[str, Any] = {
        "joint_names_expr": list(law.joints),
        "stiffness": {".*": law.stiffness},
        "damping": {".*": law.damping},
        "armature": law.armature,
    }
    if delay is not None:
        settings |= {"min_delay": delay[0], "max_delay": delay[1]}
    if isinstance(law, DCMotor):
        cls = DCMotorCfg if delay is None else DelayedDCMotorCfg
        return cls(
            effort_limit=law.effort_limit,
            saturation_effort=law.saturation_effort,
            velocity_limit=law.velocity_limit,
            **settings,
        )
    if delay is not None:  # the simulator's implicit drive takes no late commands, an explicit PD does
        return DelayedPDActuatorCfg(effort_limit=law.effort_limit, **settings)
    return ImplicitActuatorCfg(effort_limit_sim=law.effort_limit, **settings)
