"""The task's actuator laws as Isaac Lab's actuator models."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from pathlib import Path
from typing import Any

from gaitway_tasks.actuator_network import check_network, read_network, write_torchscript
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters
from gaitway_tasks.robots.robot import ActuatorLaw, DCMotor, Robot
from gaitway_tasks.spec import Task
from isaaclab.actuators import ActuatorNetLSTMCfg, ActuatorNetMLPCfg, DCMotorCfg, ImplicitActuatorCfg
from torch import nn

from . import compat
from .cache import cache_folder
from .compat import IsaacLabError


def actuator_cfgs(task: Task) -> dict[str, Any]:
    """One ``ActuatorBaseCfg`` for each group of the robot's actuators."""
    robot = task.robot
    if robot.parameters is None:
        return {name: _actuator_cfg(law) for name, law in robot.actuators.items()}
    _check_parameters(robot.parameters)
    network = robot.parameters.actuator_network
    cfgs: dict[str, Any] = {}
    for name, (law, joint) in _identified_groups(robot).items():
        if network is None:
            cfgs[name] = _actuator_cfg(law)
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
    """Groups of joints with the same law and friction; a group of the robot that must be split is numbered."""
    assert robot.parameters is not None
    alike: dict[str, dict[tuple[Any, ...], list[str]]] = {}
    for name, told, real in zip(robot.joint_names, robot.joint_actuators, robot.real_actuators, strict=True):
        group = next(key for key, law in robot.actuators.items() if law is told)
        found = robot.parameters.joints.get(name, JointParameters())
        if robot.parameters.actuator_network is not None:  # it includes gains and strength
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
    """Isaac Lab's own network drive with the same weights, as TorchScript."""
    network, described = read_network(path)
    check_network(described, task.robot, task.timing.physics_dt, path)
    if not isinstance(law, DCMotor):
        raise IsaacLabError(f"{path}: Isaac Lab's network drives have a motor's torque-speed line, and {law} has none")
    settings: dict[str, Any] = {
        "joint_names_expr": list(law.joints),
        "network_file": str(_torchscript(network, path)),
        "saturation_effort": law.saturation_effort,
        "armature": law.armature,
    } | _limits(law)
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
    """TorchScript file of the network in the user's cache, rewritten each time so that it contains nothing else."""
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    folder = cache_folder() / "networks"
    folder.mkdir(parents=True, exist_ok=True)
    return write_torchscript(network, folder / f"{digest[:16]}.pt")


def _actuator_cfg(law: ActuatorLaw) -> Any:
    settings: dict[str, Any] = {
        "joint_names_expr": list(law.joints),
        "stiffness": {".*": law.stiffness},
        "damping": {".*": law.damping},
        "armature": law.armature,
    } | _limits(law)
    if isinstance(law, DCMotor):
        return DCMotorCfg(saturation_effort=law.saturation_effort, **settings)
    return ImplicitActuatorCfg(**settings)


def _limits(law: ActuatorLaw) -> dict[str, float]:
    """The law's limits, with the release's names.

    3.0 leaves the asset's limit in the simulator beside that of a model, where 2.3 puts it out of the way.
    """
    if not isinstance(law, DCMotor):
        return {"joint_effort_limit" if compat.is_3() else "effort_limit_sim": law.effort_limit}
    if not compat.is_3():
        return {"effort_limit": law.effort_limit, "velocity_limit": law.velocity_limit}
    return {
        "actuator_effort_limit": law.effort_limit,
        "actuator_velocity_limit": law.velocity_limit,
        "joint_effort_limit": law.effort_limit,
    }
