"""Unitree G1 with 23 joints: one at the waist, five in each arm. Pose, gains and limits are the 29-joint one's."""

from dataclasses import replace
from pathlib import Path

from ..g1_29dof import (
    ACTUATORS,
    EFFORT_LIMIT,
    LEG,
    MAX_DAMPING,
    MAX_STIFFNESS,
    MOTORS,
    SIDES,
    VELOCITY_LIMIT,
    default_pose,
    limits,
)
from ..g1_29dof import DESCRIPTION as BASE
from ..hardware import Hardware, by_pattern
from ..robot import Mirror, Robot

ARM = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll")
_NAMES = (
    *(f"{side}_{joint}" for side in SIDES for joint in LEG),
    "waist_yaw",
    *(f"{side}_{joint}" for side in SIDES for joint in ARM),
)
_JOINTS = tuple(f"{name}_joint" for name in _NAMES)

# Two documents of Unitree's disagree: g1_joint_index_dds.md (unitree_mujoco) numbers the arms 13 to 22, the examples of
# unitree_sdk2_python keep the 29-joint robot's numbers and leave gaps. The examples are written for the robot, one of
# them (g1_arm5_sdk_dds_example.py) for these arms alone, and the document for a simulator that numbers what its model
# has: so the examples. A robot whose gaps speak and whose arms are silent is refused when it connects.
_SLOTS = tuple(name if name in _JOINTS else None for name in MOTORS)

UNITREE_G1_23DOF = Hardware(
    name="unitree-g1-23dof",
    robot="g1-23dof",
    family="unitree_hg",
    motors=_SLOTS,
    enable=by_pattern(_SLOTS, {".*": 1}),
    effort_limit=by_pattern(_SLOTS, EFFORT_LIMIT),
    velocity_limit=by_pattern(_SLOTS, VELOCITY_LIMIT),
    max_stiffness=by_pattern(_SLOTS, MAX_STIFFNESS),
    max_damping=by_pattern(_SLOTS, MAX_DAMPING),
    damping=by_pattern(_SLOTS, {".*": 3.0}),
    mode_machines={
        4: "23 joints",
        1: "23 joints, first gears",
        10: "23 joints, hips of 22.5 to 1",
    },
)
"""Sources as for :data:`gaitway_tasks.robots.g1_29dof.UNITREE_G1`."""

G1_23DOF = Robot(
    name="g1-23dof",
    joint_names=_JOINTS,
    body_names=(
        "pelvis",
        *(f"{side}_{joint}_link" for side in SIDES for joint in LEG),
        "torso_link",
        *(f"{side}_{joint}_link" for side in SIDES for joint in ARM),
    ),
    foot_names=tuple(f"{side}_ankle_roll_link" for side in SIDES),
    default_joint_pos=tuple(default_pose(name) for name in _NAMES),
    joint_limits=tuple(limits(name) for name in _NAMES),
    soft_joint_pos_limit_factor=0.9,
    init_height=0.8,
    actuators={group: law for group, law in ACTUATORS.items() if group not in ("waist", "wrists")},
    mjcf=Path(__file__).with_name("g1_23dof.xml"),
    mirrors={"left-right": Mirror(axis="y", pairs={"left": "right"}, flip=("_yaw_joint", "_roll_joint"))},
    hardware=UNITREE_G1_23DOF,
)

DESCRIPTION = replace(BASE, robot=G1_23DOF, title="Unitree G1 with 23 joints")
