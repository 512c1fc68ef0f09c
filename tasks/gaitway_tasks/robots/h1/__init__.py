"""Unitree H1.

Default pose and actuator values are Isaac Lab 2.3.2's (``isaaclab_assets/robots/unitree.py``, ``H1_MINIMAL_CFG``), as
are the joint names; ``h1.xml`` names the sources of its figures. The legs' gains do not balance the robot: it stands
only under a policy.
"""

from dataclasses import replace
from pathlib import Path

from gaitway_files.hardware import Hardware
from gaitway_files.patterns import by_pattern

from ..description import FLAT, ROUGH, IsaacLabRobot, RobotDescription, velocity_tasks
from ..robot import Mirror, Robot, drive

SIDES = ("left", "right")
LEG = ("hip_yaw", "hip_roll", "hip_pitch", "knee", "ankle")
ARM = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow")
_MOTORS = (
    "right_hip_roll",
    "right_hip_pitch",
    "right_knee",
    "left_hip_roll",
    "left_hip_pitch",
    "left_knee",
    "torso",
    "left_hip_yaw",
    "right_hip_yaw",
    None,
    "left_ankle",
    "right_ankle",
    *(f"{side}_{joint}" for side in ("right", "left") for joint in ARM),
)
_WEAK = ".*_ankle|.*_shoulder_.*|.*_elbow"

UNITREE_H1 = Hardware(
    name="unitree-h1",
    robot="h1",
    family="unitree_go",
    motors=_MOTORS,
    enable=by_pattern(_MOTORS, {_WEAK: 0x01, ".*": 0x0A}),
    effort_limit=by_pattern(
        _MOTORS,
        {".*_knee": 300.0, ".*_ankle|.*_shoulder_(pitch|roll)": 40.0, ".*_shoulder_yaw|.*_elbow": 18.0, ".*": 200.0},
    ),
    velocity_limit=by_pattern(
        _MOTORS,
        {".*_knee": 14.0, ".*_ankle|.*_shoulder_(pitch|roll)": 9.0, ".*_shoulder_yaw|.*_elbow": 20.0, ".*": 23.0},
    ),
    max_stiffness=by_pattern(_MOTORS, {".*_knee|torso": 300.0, ".*_shoulder_pitch": 100.0, _WEAK: 60.0, ".*": 200.0}),
    max_damping=by_pattern(_MOTORS, {".*_knee|torso": 6.0, _WEAK: 2.0, ".*": 5.0}),
    damping=by_pattern(_MOTORS, {".*_knee": 6.0, _WEAK: 2.0, ".*": 5.0}),
    imu_joint="torso",
)
"""Motor order and modes: Unitree's ``h1_low_level_example.py`` (unitree_sdk2_python). Limits of effort and speed: its
``h1.urdf``. Gains: the largest of that example and of its ``unitree_rl_lab`` (``deploy/robots/h1`` and the H1 that it
trains); the damping is the passive state's. That example commands every 10 ms, ``unitree_rl_lab`` faster than we do.
The IMU is in the torso: its ``unitree_rl_gym`` (``deploy_real``)."""


_LEG_POSE = (0.0, 0.0, -0.28, 0.79, -0.52)
_ARM_POSE = (0.28, 0.0, 0.0, 0.52)
_LEG_LIMITS = ((-0.43, 0.43), (-0.43, 0.43), (-3.14, 2.53), (-0.26, 2.05), (-0.87, 0.52))

H1 = Robot(
    name="h1",
    joint_names=(
        *(f"{side}_{joint}" for side in SIDES for joint in LEG),
        "torso",
        *(f"{side}_{joint}" for side in SIDES for joint in ARM),
    ),
    body_names=(
        "pelvis",
        *(f"{side}_{joint}_link" for side in SIDES for joint in LEG),
        "torso_link",
        *(f"{side}_{joint}_link" for side in SIDES for joint in ARM),
    ),
    foot_names=tuple(f"{side}_ankle_link" for side in SIDES),
    default_joint_pos=(*2 * _LEG_POSE, 0.0, *2 * _ARM_POSE),
    joint_limits=(
        *2 * _LEG_LIMITS,
        (-2.35, 2.35),
        *((-2.87, 2.87), (-0.34, 3.11), (-1.3, 4.45), (-1.25, 2.61)),
        *((-2.87, 2.87), (-3.11, 0.34), (-4.45, 1.3), (-1.25, 2.61)),
    ),
    soft_joint_pos_limit_factor=0.9,
    init_height=1.05,
    foot_height=0.071,
    actuators={
        "hips": drive(150.0, 5.0, 300.0, ".*_hip_yaw", ".*_hip_roll"),
        "legs": drive(200.0, 5.0, 300.0, ".*_hip_pitch", ".*_knee", "torso"),
        "feet": drive(20.0, 4.0, 100.0, ".*_ankle"),
        "arms": drive(40.0, 10.0, 300.0, ".*_shoulder_.*", ".*_elbow"),
    },
    mjcf=Path(__file__).with_name("h1.xml"),
    usd="Robots/Unitree/H1/h1_minimal.usd",
    mirrors={"left-right": Mirror(axis="y", pairs={"left": "right"}, flip=("_yaw", "_roll", "torso"))},
    hardware=UNITREE_H1,
)

DESCRIPTION = RobotDescription(
    robot=H1,
    title="Unitree H1",
    tasks={
        **velocity_tasks("gaitway_tasks.velocity.h1:flat", "gaitway_tasks.velocity.h1:rough", presets=("isaaclab3",)),
        **velocity_tasks("gaitway_tasks.velocity.h1:flat", blind=True, presets=("cpu", "isaaclab3")),
    },
    isaaclab=IsaacLabRobot(asset="isaaclab_assets.robots.unitree:H1_MINIMAL_CFG", flat_contacts=(65, 15)),
    flat_learner=replace(FLAT, entropy_coef=0.01, max_iterations=1000, max_iterations_3=500),
    rough_learner=replace(ROUGH, entropy_coef=0.01, max_iterations=3000, max_iterations_3=2000),
)
