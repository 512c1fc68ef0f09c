"""Velocity task of the Unitree G1 on sale, with 29 or 23 joints. No policy has been trained on it yet.

Weights are Isaac Lab 2.3.2's for the G1 with 37 joints (``Isaac-Velocity-Flat-G1-v0``). Values for joints that robot
lacks are from Unitree's ``unitree_rl_lab`` (``tasks/locomotion/robots/g1``): the cost of a bent waist (-1.0), the
wrists among the arms (-0.1, as in Isaac Lab), and the action scale (0.25), which goes with the gains of these robots.
"""

from __future__ import annotations

from dataclasses import replace

from ..actions import JointPositionAction
from ..robots.robot import Robot
from ..spec import Task
from . import g1, humanoid

STILL = {
    "joint_deviation_hip": g1.STILL["joint_deviation_hip"],
    "joint_deviation_arms": humanoid.deviation(-0.1, ".*_shoulder_.*_joint", ".*_elbow_joint", ".*_wrist_.*_joint"),
    "joint_deviation_waist": humanoid.deviation(-1.0, "waist_.*_joint"),
}


def flat(robot: Robot) -> Task:
    """Velocity task on a plane, with sideways commands."""
    return replace(g1.flat(robot, STILL), actions=JointPositionAction(scale=0.25))
