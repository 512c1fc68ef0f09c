"""Velocity tasks of Unitree G1 with 37 joints: Isaac Lab 2.3.2's ``Isaac-Velocity-{Flat,Rough}-G1-v0``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..mdp.commands import UniformVelocityCommand
from ..robots.g1 import FINGERS
from ..robots.robot import Robot
from ..spec import Reward, Task
from . import base, humanoid

HIPS, KNEES, ANKLES = ".*_hip_.*", ".*_knee_joint", ".*_ankle_.*"
STILL = {
    "joint_deviation_hip": humanoid.deviation(-0.1, ".*_hip_yaw_joint", ".*_hip_roll_joint"),
    "joint_deviation_arms": humanoid.deviation(-0.1, ".*_shoulder_.*_joint", ".*_elbow_.*_joint"),
    "joint_deviation_fingers": humanoid.deviation(-0.05, *(f".*_{finger}_joint" for finger in FINGERS)),
    "joint_deviation_torso": humanoid.deviation(-0.1, "torso_joint"),
}
"""Costs of moving joints that walking does not need."""


def flat(robot: Robot, still: Mapping[str, Reward] = STILL) -> Task:
    """Velocity task on a plane, with sideways commands."""
    task = base.reweighted(
        _common(robot, still),
        track_ang_vel_z_exp=1.0,
        lin_vel_z_l2=-0.2,
        dof_acc_l2=-1.0e-7,
        feet_air_time=0.75,
        dof_torques_l2=-2.0e-6,
    )
    command = replace(UniformVelocityCommand.of(task), lin_vel_y=(-0.5, 0.5))
    task = replace(task, commands={"base_velocity": command})
    return humanoid.with_params(task, "dof_torques_l2", joints=humanoid.any_of(HIPS, KNEES))


def rough(robot: Robot) -> Task:
    """Velocity task over rough ground, with the height scanner on the torso."""
    return base.on_rough_ground(_common(robot, STILL), humanoid.TORSO)


def _common(robot: Robot, still: Mapping[str, Reward]) -> Task:
    task = humanoid.flat(robot, ankles=[".*_ankle_pitch_joint", ".*_ankle_roll_joint"], feet=".*_ankle_roll_link")
    task = base.reweighted(task, track_ang_vel_z_exp=2.0, lin_vel_z_l2=0.0, dof_torques_l2=-1.5e-7)
    task = humanoid.with_params(task, "dof_torques_l2", joints=humanoid.any_of(HIPS, KNEES, ANKLES))
    task = humanoid.with_params(task, "dof_acc_l2", joints=humanoid.any_of(HIPS, KNEES))
    return replace(task, rewards={**task.rewards, **still})
