"""Unitree G1 with 37 joints: the one of Isaac Lab's velocity tasks, not the later one with 29.

Default pose and actuator values are Isaac Lab 2.3.2's (``isaaclab_assets/robots/unitree.py``, ``G1_MINIMAL_CFG``);
``g1.xml`` names the sources of its figures. The legs' gains do not balance the robot: it stands only under a policy.
"""

from dataclasses import replace
from pathlib import Path

from ..description import FLAT, ROUGH, IsaacLabRobot, RobotDescription, velocity_tasks
from ..robot import Mirror, Robot, drive

SIDES = ("left", "right")
LEG = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
ARM = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow_pitch", "elbow_roll")
FINGERS = ("five", "six", "three", "four", "zero", "one", "two")
"""Finger joints (middle, index, thumb), from the palm outwards."""
_DEFAULT = {
    **{f"{side}_{joint}": angle for side in SIDES for joint, angle in (("hip_pitch", -0.2), ("knee", 0.42))},
    **{f"{side}_{joint}": angle for side in SIDES for joint, angle in (("ankle_pitch", -0.23), ("elbow_pitch", 0.87))},
    **{f"{side}_shoulder_pitch": 0.35 for side in SIDES},
    **{"left_shoulder_roll": 0.16, "left_one": 1.0, "left_two": 0.52},
    **{"right_shoulder_roll": -0.16, "right_one": -1.0, "right_two": -0.52},
}
_LEG_LIMITS = {
    "left": ((-2.35, 3.05), (-0.26, 2.53), (-2.75, 2.75), (-0.33489, 2.5449), (-0.68, 0.73), (-0.2618, 0.2618)),
    "right": ((-2.35, 3.05), (-2.53, 0.26), (-2.75, 2.75), (-0.33489, 2.5449), (-0.68, 0.73), (-0.2618, 0.2618)),
}
_ARM_LIMITS = {
    "left": ((-2.9671, 2.7925), (-1.5882, 2.2515), (-2.618, 2.618), (-0.2268, 3.4208), (-2.0943, 2.0943)),
    "right": ((-2.9671, 2.7925), (-2.2515, 1.5882), (-2.618, 2.618), (-0.2268, 3.4208), (-2.0943, 2.0943)),
}
_THUMB = (-0.5236, 0.5236)
_FINGER_LIMITS = {
    "left": (*2 * ((-1.84, 0.3), (-1.84, 0.0)), _THUMB, (-1.0, 1.2), (0.0, 1.84)),
    "right": (*2 * ((-0.3, 1.84), (0.0, 1.84)), _THUMB, (-1.2, 1.0), (-1.84, 0.0)),
}
_NAMES = (
    *(f"{side}_{joint}" for side in SIDES for joint in LEG),
    "torso",
    *(f"{side}_{joint}" for side in SIDES for joint in (*ARM, *FINGERS)),
)

G1 = Robot(
    name="g1",
    joint_names=tuple(f"{name}_joint" for name in _NAMES),
    body_names=("pelvis", *(f"{name}_link" for name in _NAMES)),
    foot_names=tuple(f"{side}_ankle_roll_link" for side in SIDES),
    default_joint_pos=tuple(_DEFAULT.get(name, 0.0) for name in _NAMES),
    joint_limits=(
        *(limit for side in SIDES for limit in _LEG_LIMITS[side]),
        (-2.618, 2.618),
        *(limit for side in SIDES for limit in (*_ARM_LIMITS[side], *_FINGER_LIMITS[side])),
    ),
    soft_joint_pos_limit_factor=0.9,
    init_height=0.74,
    actuators={
        "hips": drive(150.0, 5.0, 300.0, ".*_hip_yaw_joint", ".*_hip_roll_joint", armature=0.01),
        "legs": drive(200.0, 5.0, 300.0, ".*_hip_pitch_joint", ".*_knee_joint", "torso_joint", armature=0.01),
        "feet": drive(20.0, 2.0, 20.0, ".*_ankle_.*_joint", armature=0.01),
        "arms": drive(40.0, 10.0, 300.0, ".*_shoulder_.*_joint", ".*_elbow_.*_joint", armature=0.01),
        "hands": drive(40.0, 10.0, 300.0, *(f".*_{finger}_joint" for finger in FINGERS), armature=0.001),
    },
    mjcf=Path(__file__).with_name("g1.xml"),
    usd="Robots/Unitree/G1/g1_minimal.usd",
    mirrors={
        "left-right": Mirror(
            axis="y",
            pairs={"left": "right"},
            flip=(
                "_yaw_joint",
                "_roll_joint",
                "torso_joint",
                *(f"_{finger}_joint" for finger in FINGERS if finger != "zero"),
            ),
        )
    },
)

DESCRIPTION = RobotDescription(
    robot=G1,
    title="Unitree G1 with 37 joints",
    tasks=velocity_tasks("gaitway_tasks.velocity.g1:flat", "gaitway_tasks.velocity.g1:rough", presets=("isaaclab3",)),
    isaaclab=IsaacLabRobot(
        asset="isaaclab_assets.robots.unitree:G1_MINIMAL_CFG", flat_contacts=(95, 10), rough_contacts=(300, 300)
    ),
    flat_learner=replace(FLAT, entropy_coef=0.008, max_iterations=1500, hidden_dims=(256, 128, 128)),
    rough_learner=replace(ROUGH, entropy_coef=0.008, max_iterations=3000, max_iterations_3=5000),
)
