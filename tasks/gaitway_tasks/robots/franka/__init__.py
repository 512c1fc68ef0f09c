"""Franka Emika Panda with its hand: seven joints of the arm, and two fingers that slide.

Joint order, default pose, gains and effort limits are Isaac Lab 2.3.2's ``FRANKA_PANDA_CFG``
(``isaaclab_assets/robots/franka.py``), with gravity, as there; only its ``FRANKA_PANDA_HIGH_PD_CFG`` has none. Angles
are in radians; the fingers' positions are in metres, and their gains in N/m and N s/m.
"""

from pathlib import Path

from ..description import IsaacLabRobot, Learner, RobotDescription, RobotTask
from ..robot import Robot, drive

FRANKA = Robot(
    name="franka",
    fixed_base=True,
    joint_names=(*(f"panda_joint{n}" for n in range(1, 8)), "panda_finger_joint1", "panda_finger_joint2"),
    body_names=(*(f"panda_link{n}" for n in range(8)), "panda_hand", "panda_leftfinger", "panda_rightfinger"),
    default_joint_pos=(0.0, -0.569, 0.0, -2.810, 0.0, 3.037, 0.741, 0.04, 0.04),
    joint_limits=(
        (-2.8973, 2.8973), (-1.7628, 1.7628), (-2.8973, 2.8973), (-3.0718, -0.0698), (-2.8973, 2.8973),
        (-0.0175, 3.7525), (-2.8973, 2.8973), (0.0, 0.04), (0.0, 0.04),
    ),
    soft_joint_pos_limit_factor=1.0,
    init_height=0.0,
    actuators={
        "panda_shoulder": drive(80.0, 4.0, 87.0, "panda_joint[1-4]"),
        "panda_forearm": drive(80.0, 4.0, 12.0, "panda_joint[5-7]"),
        "panda_hand": drive(2000.0, 100.0, 200.0, "panda_finger_joint[12]"),
    },
    mjcf=Path(__file__).with_name("franka.xml"),
)  # fmt: skip

DESCRIPTION = RobotDescription(
    robot=FRANKA,
    title="Franka Panda",
    tasks={
        "reach-{robot}": RobotTask(
            make="gaitway_tasks.reach:reach",
            summary="{title} brings its hand to poses",
            presets={"cpu": "gaitway_tasks.reach:CPU"},
            isaaclab=False,
        ),
        "lift-{robot}": RobotTask(
            make="gaitway_tasks.lift:lift",
            summary="{title} lifts a cube to places; reads where the cube is",
            presets={"cpu": "gaitway_tasks.lift:CPU"},
            isaaclab=False,
        ),
    },
    flat_learner=Learner(max_iterations=1000, hidden_dims=(64, 64), entropy_coef=0.001),
    isaaclab=IsaacLabRobot(asset="isaaclab_assets.robots.franka:FRANKA_PANDA_CFG"),
    order=3,
)
