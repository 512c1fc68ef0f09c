"""The fields of a contract about the robot alone."""

from __future__ import annotations

from typing import Any

from gaitway_onboard.bundle.parts import Actuator
from gaitway_tasks.robots import ActuatorLaw, DCMotor, Robot


def robot_fields(robot: Robot) -> dict[str, Any]:
    """Fields of a :class:`gaitway_onboard.bundle.contract.Contract`, by name."""
    return {
        "robot": robot.name,
        "joint_names": robot.joint_names,
        "default_joint_pos": robot.default_joint_pos,
        "joint_pos_limits": robot.joint_limits,
        "soft_joint_pos_limit_factor": robot.soft_joint_pos_limit_factor,
        "actuators": actuators_of(robot),
        "base_body": robot.base_name,
        "foot_bodies": robot.foot_names,
        "init_height": robot.init_height,
        "fixed_base": True if robot.fixed_base else None,
        "gravity_compensation": True if robot.gravity_compensation else None,
    }


def actuators_of(robot: Robot) -> tuple[Actuator, ...]:
    """The drives of ``robot`` as groups of joints that are alike."""
    groups: dict[ActuatorLaw, list[str]] = {}
    for name, law in zip(robot.joint_names, robot.joint_actuators, strict=True):
        groups.setdefault(law, []).append(name)
    return tuple(
        Actuator(
            joints=tuple(names),
            law="dc_motor" if isinstance(law, DCMotor) else "implicit_pd",
            stiffness=law.stiffness,
            damping=law.damping,
            effort_limit=law.effort_limit,
            saturation_effort=law.saturation_effort if isinstance(law, DCMotor) else None,
            velocity_limit=law.velocity_limit if isinstance(law, DCMotor) else None,
            armature=law.armature,
        )
        for law, names in groups.items()
    )
