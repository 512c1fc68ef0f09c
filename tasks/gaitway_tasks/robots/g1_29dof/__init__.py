"""Unitree G1 with 29 joints, the model on sale: three joints at the waist and seven in each arm.

Default pose and gains are those of Unitree's ``unitree_rl_lab`` (``UNITREE_G1_29DOF_CFG``), which trains with efforts
above those of any G1; here they are the motors' efforts. ``g1_29dof.xml`` names the sources of its figures. The legs'
gains do not balance the robot: it stands only under a policy.
"""

from pathlib import Path

from gaitway_files.hardware import Hardware
from gaitway_files.patterns import by_pattern

from ..description import RobotDescription, tracking_tasks, velocity_tasks
from ..g1 import DESCRIPTION as G1_WITH_37_JOINTS
from ..robot import Mirror, Robot, drive

SIDES = ("left", "right")
LEG = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
WAIST = ("waist_yaw", "waist_roll", "waist_pitch")
ARM = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll", "wrist_pitch", "wrist_yaw")
_NAMES = (
    *(f"{side}_{joint}" for side in SIDES for joint in LEG),
    *WAIST,
    *(f"{side}_{joint}" for side in SIDES for joint in ARM),
)
MOTORS = tuple(f"{name}_joint" for name in _NAMES)
"""Joint of each motor slot."""

EFFORT_LIMIT = {
    ".*_knee_joint": 139.0,
    ".*_ankle_.*_joint|waist_(roll|pitch)_joint": 35.0,
    ".*_wrist_(pitch|yaw)_joint": 5.0,
    ".*_shoulder_.*_joint|.*_elbow_joint|.*_wrist_roll_joint": 25.0,
    ".*": 88.0,
}
VELOCITY_LIMIT = {
    ".*_hip_(pitch|roll)_joint|.*_knee_joint": 20.0,
    ".*_ankle_.*_joint|waist_(roll|pitch)_joint": 30.0,
    ".*_wrist_(pitch|yaw)_joint": 22.0,
    ".*_shoulder_.*_joint|.*_elbow_joint|.*_wrist_roll_joint": 37.0,
    ".*": 32.0,
}
MAX_STIFFNESS = {".*_hip_.*": 100.0, ".*_knee_joint": 150.0, "waist_.*": 200.0, ".*": 40.0}
MAX_DAMPING = {".*_hip_.*|.*_ankle_.*": 2.0, ".*_knee_joint": 4.0, "waist_.*": 5.0, ".*": 10.0}

UNITREE_G1 = Hardware(
    name="unitree-g1",
    robot="g1-29dof",
    family="unitree_hg",
    motors=MOTORS,
    enable=by_pattern(MOTORS, {".*": 1}),
    effort_limit=by_pattern(MOTORS, EFFORT_LIMIT),
    velocity_limit=by_pattern(MOTORS, VELOCITY_LIMIT),
    max_stiffness=by_pattern(MOTORS, MAX_STIFFNESS),
    max_damping=by_pattern(MOTORS, MAX_DAMPING),
    damping=by_pattern(MOTORS, {".*": 3.0}),
    mode_machines={
        5: "29 joints",
        2: "29 joints, first gears",
        11: "29 joints, hips of 22.5 to 1",
        13: "29 joints, newer wrists",
        15: "29 joints, hips of 22.5 to 1 and newer wrists",
    },
)
"""Motor order, mode and period: Unitree's ``g1_low_level_example.py`` (unitree_sdk2_python). Machines: the table in
``g1_description`` (unitree_ros), without those whose waist is locked; limits of effort and velocity are the smallest of
their URDFs, whose 35 N m for ankles and waist are below the 50 of Unitree's MuJoCo model. Gains: the largest, and for
the damping the passive state's, of ``unitree_rl_lab`` (``deploy/robots/g1``)."""

POSE = {
    "hip_pitch": -0.1,
    "knee": 0.3,
    "ankle_pitch": -0.2,
    "shoulder_pitch": 0.3,
    "shoulder_roll": 0.25,
    "elbow": 0.97,
    "wrist_roll": 0.15,
}
"""Values of the left side; the right side has the opposite sign for roll joints."""
LIMITS = {
    "hip_pitch": (-2.5307, 2.8798),
    "hip_roll": (-0.5236, 2.9671),
    "hip_yaw": (-2.7576, 2.7576),
    "knee": (-0.087267, 2.8798),
    "ankle_pitch": (-0.87267, 0.5236),
    "ankle_roll": (-0.2618, 0.2618),
    "waist_yaw": (-2.618, 2.618),
    "waist_roll": (-0.52, 0.52),
    "waist_pitch": (-0.52, 0.52),
    "shoulder_pitch": (-3.0892, 2.6704),
    "shoulder_roll": (-1.5882, 2.2515),
    "shoulder_yaw": (-2.618, 2.618),
    "elbow": (-1.0472, 2.0944),
    "wrist_roll": (-1.97222, 1.97222),
    "wrist_pitch": (-1.61443, 1.61443),
    "wrist_yaw": (-1.61443, 1.61443),
}
"""Limits of the left side [rad]; on the right side, the ranges of roll and yaw joints are mirrored."""


def default_pose(name: str) -> float:
    """Default position of a joint such as "right_shoulder_roll" [rad]."""
    side, _, joint = name.partition("_")
    angle = POSE.get(joint, 0.0)
    return -angle if side == "right" and joint.endswith("_roll") else angle


def limits(name: str) -> tuple[float, float]:
    """Lower and upper limit of a joint such as "waist_yaw" [rad]."""
    side, _, joint = name.partition("_")
    low, high = LIMITS[joint if side in SIDES else name]
    return (-high, -low) if side == "right" and joint.endswith(("_roll", "_yaw")) else (low, high)


ACTUATORS = {
    "hips": drive(100.0, 2.0, 88.0, ".*_hip_.*", armature=0.01),
    "knees": drive(150.0, 4.0, 139.0, ".*_knee_joint", armature=0.01),
    "feet": drive(40.0, 2.0, 35.0, ".*_ankle_.*", armature=0.01),
    "waist_yaw": drive(200.0, 5.0, 88.0, "waist_yaw_joint", armature=0.01),
    "waist": drive(200.0, 5.0, 35.0, "waist_roll_joint", "waist_pitch_joint", armature=0.01),
    "arms": drive(40.0, 10.0, 25.0, ".*_shoulder_.*", ".*_elbow_joint", ".*_wrist_roll_joint", armature=0.01),
    "wrists": drive(40.0, 10.0, 5.0, ".*_wrist_pitch_joint", ".*_wrist_yaw_joint", armature=0.01),
}

G1_29DOF = Robot(
    name="g1-29dof",
    joint_names=MOTORS,
    body_names=(
        "pelvis",
        *(f"{side}_{joint}_link" for side in SIDES for joint in LEG),
        *("waist_yaw_link", "waist_roll_link", "torso_link"),
        *(f"{side}_{joint}_link" for side in SIDES for joint in ARM),
    ),
    foot_names=tuple(f"{side}_ankle_roll_link" for side in SIDES),
    default_joint_pos=tuple(default_pose(name) for name in _NAMES),
    joint_limits=tuple(limits(name) for name in _NAMES),
    soft_joint_pos_limit_factor=0.9,
    init_height=0.8,
    foot_height=0.035,
    actuators=ACTUATORS,
    mjcf=Path(__file__).with_name("g1_29dof.xml"),
    mirrors={"left-right": Mirror(axis="y", pairs={"left": "right"}, flip=("_yaw_joint", "_roll_joint"))},
    hardware=UNITREE_G1,
)

DESCRIPTION = RobotDescription(
    robot=G1_29DOF,
    title="Unitree G1 with 29 joints",
    tasks={**velocity_tasks("gaitway_tasks.velocity.g1_29dof:flat", blind=True, presets=("cpu",)), **tracking_tasks()},
    flat_learner=G1_WITH_37_JOINTS.flat_learner,
)
