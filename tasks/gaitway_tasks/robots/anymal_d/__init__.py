"""ANYbotics ANYmal D.

Pose and actuator values are Isaac Lab 2.3.2's (``isaaclab_assets/robots/anymal.py``), which are ANYmal C's, and so is
its stand-in for the LSTM actuator; Isaac Lab too uses C's network, since none of D is public. ``anymal_d.xml`` names
the sources of its figures.
"""

from dataclasses import replace
from pathlib import Path

from ..anymal_c import ANYMAL_C, LEGS
from ..anymal_c import DESCRIPTION as BASE

ANYMAL_D = ANYMAL_C.replace(
    name="anymal-d",
    foot_height=0.0035,
    joint_limits=tuple(
        limit
        for leg in LEGS
        for limit in (((-0.7854, 0.61087) if leg[0] == "L" else (-0.61087, 0.7854)), *2 * ((-9.42478, 9.42478),))
    ),
    mjcf=Path(__file__).with_name("anymal_d.xml"),
    usd="Robots/ANYbotics/ANYmal-D/anymal_d.usd",
)

DESCRIPTION = replace(
    BASE,
    robot=ANYMAL_D,
    title="ANYmal D",
    isaaclab=replace(BASE.isaaclab, asset="isaaclab_assets.robots.anymal:ANYMAL_D_CFG", flat_contacts=(60, 25)),
    rough_learner=replace(BASE.rough_learner, max_iterations_3=2000),
    order=1,
)
