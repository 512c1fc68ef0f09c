"""Unitree Go1.

Default pose and torque limits are Isaac Lab 2.3.2's (``isaaclab_assets/robots/unitree.py``, ``UNITREE_GO1_CFG``). Its
actuator is a network that is not public data; the DC motor here has that network's limits, and the gains (20, 0.5)
of walk-these-ways, from whose robot the network was recorded. ``go1.xml`` names the sources of its figures.
"""

from dataclasses import replace
from pathlib import Path

from ..description import IsaacLabRobot
from ..go2 import DESCRIPTION as BASE
from ..go2 import GO2
from ..robot import DCMotor

GO1 = GO2.replace(
    name="go1",
    foot_height=0.021,
    body_names=("trunk", *GO2.body_names[1:]),
    joint_limits=4 * ((-0.863, 0.863), (-0.686, 4.501), (-2.818, -0.888)),
    actuators={
        "base_legs": DCMotor(
            stiffness=20.0, damping=0.5, effort_limit=23.7, saturation_effort=23.7, velocity_limit=30.0
        )
    },
    mjcf=Path(__file__).with_name("go1.xml"),
    usd="Robots/Unitree/Go1/go1.usd",
    hardware=None,
)

DESCRIPTION = replace(
    BASE,
    robot=GO1,
    title="Unitree Go1",
    isaaclab=IsaacLabRobot(asset="isaaclab_assets.robots.unitree:UNITREE_GO1_CFG", flat_contacts=(60, 25)),
)
