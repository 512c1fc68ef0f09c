"""The robots that can be driven, by the name that ``--robot`` takes, with the ranges of their joints."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from gaitway_files.hardware import Hardware
from gaitway_onboard.interface import DeployError
from gaitway_onboard.transports.ros2_config import load_ros2
from gaitway_tasks.robots import ROBOTS, Robot

ROS2 = "ros2"
"""A robot that a file describes, instead of a definition of ours."""


def hardware_from(robot: Robot) -> Hardware | None:
    """Hardware that the on-board half must know of this robot; None if its definition leaves out the hardware."""
    if robot.hardware is None:
        return None
    return dataclasses.replace(robot.hardware, joint_limits=_limits(robot))


def _limits(robot: Robot) -> dict[str, tuple[float, float]]:
    return dict(zip(robot.joint_names, robot.joint_limits, strict=True))


HARDWARE = {found.name: found for robot in ROBOTS.values() if (found := hardware_from(robot)) is not None}
"""Robots with a wire of their own. "ros2" is not here: its joints are in its configuration."""


def hardware_of(name: str, config: Path | None = None) -> Hardware:
    """Hardware for ``--robot``: one of :data:`HARDWARE`, "ros2", or ``module:object`` of a robot elsewhere.

    ``config`` is the file that describes a robot on ROS 2, and only such a robot. Raises :class:`DeployError`, and
    :class:`gaitway_files.trust.TrustError` for a module that the user did not name.
    """
    if name == ROS2:
        if config is None:
            raise DeployError("a robot on ROS 2 is described by a file: --config robot.yaml")
        return ros2_hardware(config)
    if config is not None:
        raise DeployError(f"--config describes robots on ROS 2; {name} is known")
    if ":" in name:
        found = hardware_from(ROBOTS[name])
        if found is None:
            raise DeployError(
                f"{name} has no hardware: its Robot needs hardware=Hardware(...), with its wire, the motor slot of "
                "each joint and its limits, as tasks/gaitway_tasks/robots/go2 has it"
            )
        return found
    if name not in HARDWARE:
        raise DeployError(f"unknown robot {name!r}: known are {', '.join([*HARDWARE, ROS2])}")
    return HARDWARE[name]


def ros2_hardware(path: Path) -> Hardware:
    """The robot that the file ``path`` describes, whose joints must be those of a robot that is known."""
    config = load_ros2(path)
    robot = ROBOTS.get(config.robot)
    if robot is None:
        raise DeployError(f"{path}: robot {config.robot!r}: known are {', '.join(ROBOTS)}")
    if wrong := sorted(set(config.joints) ^ set(robot.joint_names)):
        raise DeployError(
            f"{path}: joints must be those of {robot.name}, in any order, and are not: {', '.join(wrong)}"
        )
    return dataclasses.replace(config.hardware(), joint_limits=_limits(robot))
