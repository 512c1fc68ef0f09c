"""Unitree G1 with 23 joints: one at the waist, five in each arm. Everything else is as in the 29-joint G1."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from gaitway_files.hardware import PER_JOINT

from ..g1_29dof import DESCRIPTION as BASE
from ..g1_29dof import G1_29DOF, MOTORS, UNITREE_G1

ABSENT = (
    "waist_roll",
    "waist_pitch",
    *(f"{arm}_wrist_{axis}" for arm in ("left", "right") for axis in ("pitch", "yaw")),
)
_JOINTS = tuple(name for name in MOTORS if name.removesuffix("_joint") not in ABSENT)
_POSE = dict(zip(MOTORS, G1_29DOF.default_joint_pos, strict=True))
_LIMITS = dict(zip(MOTORS, G1_29DOF.joint_limits, strict=True))

_PER_JOINT: dict[str, Any] = {key: {name: getattr(UNITREE_G1, key)[name] for name in _JOINTS} for key in PER_JOINT}

# Two Unitree documents disagree: g1_joint_index_dds.md (unitree_mujoco) numbers the arms 13 to 22, the examples of
# unitree_sdk2_python keep the 29-joint robot's numbers and leave gaps. The examples are written for the robot, one of
# them (g1_arm5_sdk_dds_example.py) for these arms alone, and the document for a simulator that numbers the joints of
# its model, so the examples are used. A robot that reports joints in the gaps and none in the arms is refused.
UNITREE_G1_23DOF = replace(
    UNITREE_G1,
    name="unitree-g1-23dof",
    robot="g1-23dof",
    motors=tuple(name if name in _JOINTS else None for name in MOTORS),
    mode_machines={4: "23 joints", 1: "23 joints, first gears", 10: "23 joints, hips of 22.5 to 1"},
    **_PER_JOINT,
)
"""Sources as for :data:`gaitway_tasks.robots.g1_29dof.UNITREE_G1`."""

G1_23DOF = G1_29DOF.replace(
    name="g1-23dof",
    joint_names=_JOINTS,
    body_names=tuple(
        name for name in G1_29DOF.body_names if name != "waist_yaw_link" and name.removesuffix("_link") not in ABSENT
    ),
    default_joint_pos=tuple(_POSE[name] for name in _JOINTS),
    joint_limits=tuple(_LIMITS[name] for name in _JOINTS),
    actuators={group: law for group, law in G1_29DOF.actuators.items() if group not in ("waist", "wrists")},
    mjcf=Path(__file__).with_name("g1_23dof.xml"),
    hardware=UNITREE_G1_23DOF,
)

DESCRIPTION = replace(BASE, robot=G1_23DOF, title="Unitree G1 with 23 joints")
