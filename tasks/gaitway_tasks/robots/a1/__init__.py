"""Unitree A1.

Default pose and actuator values are Isaac Lab 2.3.2's (``isaaclab_assets/robots/unitree.py``, ``UNITREE_A1_CFG``);
``a1.xml`` names the sources of its figures.
"""

from dataclasses import replace
from pathlib import Path

from ..description import IsaacLabRobot
from ..go2 import DESCRIPTION as BASE
from ..go2 import GO2
from ..robot import DCMotor

A1 = GO2.replace(
    name="a1",
    body_names=("trunk", *GO2.body_names[1:]),
    joint_limits=4 * ((-0.80285, 0.80285), (-1.0472, 4.18879), (-2.69653, -0.9163)),
    init_height=0.42,
    foot_height=0.02,
    actuators={
        "base_legs": DCMotor(
            stiffness=25.0, damping=0.5, effort_limit=33.5, saturation_effort=33.5, velocity_limit=21.0
        )
    },
    mjcf=Path(__file__).with_name("a1.xml"),
    usd="Robots/Unitree/A1/a1.usd",
    hardware=None,
)

DESCRIPTION = replace(
    BASE,
    robot=A1,
    title="Unitree A1",
    isaaclab=IsaacLabRobot(asset="isaaclab_assets.robots.unitree:UNITREE_A1_CFG", flat_contacts=(60, 30)),
)
