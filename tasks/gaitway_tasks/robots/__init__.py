"""The robots Gaitway knows, by name."""

from .a1 import A1
from .anymal_b import ANYMAL_B
from .anymal_c import ANYMAL_C
from .anymal_d import ANYMAL_D
from .g1 import G1
from .g1_23dof import G1_23DOF
from .g1_29dof import G1_29DOF
from .go1 import GO1
from .go2 import GO2
from .h1 import H1
from .hardware import Hardware
from .robot import ActuatorLaw, DCMotor, ImplicitPD, Mirror, Robot

ROBOTS: dict[str, Robot] = {
    robot.name: robot for robot in (ANYMAL_B, ANYMAL_C, ANYMAL_D, A1, GO1, GO2, H1, G1, G1_29DOF, G1_23DOF)
}

__all__ = [
    "A1",
    "ANYMAL_B",
    "ANYMAL_C",
    "ANYMAL_D",
    "G1",
    "G1_23DOF",
    "G1_29DOF",
    "GO1",
    "GO2",
    "H1",
    "ROBOTS",
    "ActuatorLaw",
    "DCMotor",
    "Hardware",
    "ImplicitPD",
    "Mirror",
    "Robot",
]
