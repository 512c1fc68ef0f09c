"""Unitree Go2.

Default pose and actuator values are Isaac Lab 2.3.2's (``isaaclab_assets/robots/unitree.py``, ``UNITREE_GO2_CFG``);
``go2.xml`` names the sources of its figures.
"""

from dataclasses import replace
from pathlib import Path

from gaitway_files.hardware import Hardware
from gaitway_files.patterns import by_pattern

from ..description import FLAT, ROUGH, IsaacLabRobot, RobotDescription, tracking_tasks, velocity_tasks
from ..robot import DCMotor, Mirror, Robot

LEGS = ("FL", "FR", "RL", "RR")
JOINTS = ("hip", "thigh", "calf")
_MOTORS = tuple(f"{leg}_{joint}_joint" for leg in ("FR", "FL", "RR", "RL") for joint in JOINTS)

UNITREE_GO2 = Hardware(
    name="unitree-go2",
    robot="go2",
    family="unitree_go",
    motors=(*_MOTORS, *8 * (None,)),
    enable=by_pattern(_MOTORS, {".*": 0x01}),
    effort_limit=by_pattern(_MOTORS, {".*_calf_joint": 45.43, ".*": 23.7}),
    velocity_limit=by_pattern(_MOTORS, {".*_calf_joint": 15.7, ".*": 30.1}),
    max_stiffness=by_pattern(_MOTORS, {".*": 80.0}),
    max_damping=by_pattern(_MOTORS, {".*": 5.0}),
    damping=by_pattern(_MOTORS, {".*": 3.0}),
    feet=("FR_foot", "FL_foot", "RR_foot", "RL_foot"),
    stand_down=("sport", 1005),
)
"""Motor order, modes, period and the way down: Unitree's ``go2_stand_example.py`` (unitree_sdk2_python). Limits of
effort and velocity: its ``go2_description.urdf``; the calf has a gear of its own. Gains: the largest, and for the
damping the passive state's, of its ``unitree_rl_lab`` (``deploy/robots/go2``)."""


GO2 = Robot(
    name="go2",
    joint_names=tuple(f"{leg}_{joint}_joint" for leg in LEGS for joint in JOINTS),
    body_names=("base", *(f"{leg}_{body}" for leg in LEGS for body in ("hip", "thigh", "calf", "foot"))),
    foot_names=tuple(f"{leg}_foot" for leg in LEGS),
    default_joint_pos=(0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5),
    joint_limits=(
        *2 * ((-1.0472, 1.0472), (-1.5708, 3.4907), (-2.7227, -0.83776)),
        *2 * ((-1.0472, 1.0472), (-0.5236, 4.5379), (-2.7227, -0.83776)),
    ),
    soft_joint_pos_limit_factor=0.9,
    init_height=0.4,
    foot_height=0.022,
    actuators={
        "base_legs": DCMotor(
            stiffness=25.0, damping=0.5, effort_limit=23.5, saturation_effort=23.5, velocity_limit=30.0
        )
    },
    mjcf=Path(__file__).with_name("go2.xml"),
    usd="Robots/Unitree/Go2/go2.usd",
    mirrors={"left-right": Mirror(axis="y", pairs={"FL": "FR", "RL": "RR"}, flip=("hip_joint",))},
    hardware=UNITREE_GO2,
)

DESCRIPTION = RobotDescription(
    robot=GO2,
    title="Unitree Go2",
    tasks={
        **velocity_tasks(
            "gaitway_tasks.velocity.unitree:flat",
            "gaitway_tasks.velocity.unitree:rough",
            blind=True,
            presets=("cpu", "sprint", "isaaclab3"),
        ),
        **tracking_tasks(),
    },
    isaaclab=IsaacLabRobot(asset="isaaclab_assets.robots.unitree:UNITREE_GO2_CFG", flat_contacts=(65, 35)),
    flat_learner=replace(FLAT, entropy_coef=0.01),
    rough_learner=replace(ROUGH, entropy_coef=0.01),
)
