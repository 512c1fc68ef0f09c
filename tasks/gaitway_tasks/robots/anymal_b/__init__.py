"""ANYbotics ANYmal B.

Pose and actuator values are Isaac Lab 2.3.2's (``isaaclab_assets/robots/anymal.py``), which are ANYmal C's, and so is
its stand-in for the LSTM actuator. ``anymal_b.xml`` names the sources of its figures.
"""

from dataclasses import replace
from pathlib import Path

from ..anymal_c import ANYMAL_C
from ..anymal_c import DESCRIPTION as BASE

ANYMAL_B = ANYMAL_C.replace(
    name="anymal-b",
    foot_height=0.0096,
    joint_limits=12 * ((-9.42, 9.42),),
    mjcf=Path(__file__).with_name("anymal_b.xml"),
    usd="Robots/ANYbotics/ANYmal-B/anymal_b.usd",
)

DESCRIPTION = replace(
    BASE,
    robot=ANYMAL_B,
    title="ANYmal B",
    isaaclab=replace(BASE.isaaclab, asset="isaaclab_assets.robots.anymal:ANYMAL_B_CFG", flat_contacts=(75, 15)),
    order=1,
)
