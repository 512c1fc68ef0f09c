"""Pony: a small quadruped made of boxes, capsules and spheres."""

from pathlib import Path

from gaitway_tasks.robots import DCMotor, Mirror, Robot, RobotDescription, velocity_tasks

LEGS = ("FL", "FR", "RL", "RR")
FRONT, REAR = (0.0, 0.7, -1.4), (0.0, -0.7, 1.4)

PONY = Robot(
    name="pony",
    joint_names=tuple(f"{leg}_{joint}_joint" for leg in LEGS for joint in ("hip", "thigh", "calf")),
    body_names=("base", *(f"{leg}_{body}" for leg in LEGS for body in ("hip", "thigh", "calf", "foot"))),
    foot_names=tuple(f"{leg}_foot" for leg in LEGS),
    default_joint_pos=(*FRONT, *FRONT, *REAR, *REAR),
    joint_limits=4 * ((-0.7, 0.7), (-2.0, 2.0), (-2.6, 2.6)),
    soft_joint_pos_limit_factor=0.9,
    init_height=0.32,
    foot_height=0.02,
    actuators={
        "legs": DCMotor(stiffness=20.0, damping=0.5, effort_limit=15.0, saturation_effort=20.0, velocity_limit=20.0)
    },
    mjcf=Path(__file__).with_name("pony.xml"),
    mirrors={
        "left-right": Mirror(axis="y", pairs={"FL": "FR", "RL": "RR"}, flip=("_hip_joint",)),
        "front-back": Mirror(axis="x", pairs={"FL": "RL", "FR": "RR"}, flip=("_thigh_joint", "_calf_joint")),
    },
)

DESCRIPTION = RobotDescription(
    robot=PONY,
    title="Pony",
    tasks=velocity_tasks("pony.tasks:flat", blind=True, presets=("cpu", "sprint")),
)
