"""Velocity tasks of Unitree H1: Isaac Lab 2.3.2's ``Isaac-Velocity-{Flat,Rough}-H1-v0``."""

from __future__ import annotations

from dataclasses import replace

from ..robots.robot import Robot
from ..spec import Task
from . import base, humanoid


def flat(robot: Robot) -> Task:
    """Velocity task on a plane."""
    return humanoid.with_params(base.reweighted(_common(robot), feet_air_time=1.0), "feet_air_time", threshold=0.6)


def rough(robot: Robot) -> Task:
    """Velocity task over rough ground, with the height scanner on the torso."""
    return base.on_rough_ground(_common(robot), humanoid.TORSO)


def _common(robot: Robot) -> Task:
    task = base.reweighted(
        humanoid.flat(robot, ankles=[".*_ankle"], feet=".*ankle_link"), dof_torques_l2=0.0, feet_slide=-0.25
    )
    still = {
        "joint_deviation_hip": humanoid.deviation(-0.2, ".*_hip_yaw", ".*_hip_roll"),
        "joint_deviation_arms": humanoid.deviation(-0.2, ".*_shoulder_.*", ".*_elbow"),
        "joint_deviation_torso": humanoid.deviation(-0.1, "torso"),
    }
    return replace(task, rewards={**base.without(task.rewards, "lin_vel_z_l2"), **still})
