"""The robots Gaitway knows, by name."""

from .a1 import A1
from .anymal_b import ANYMAL_B
from .anymal_c import ANYMAL_C
from .anymal_d import ANYMAL_D
from .g1 import G1
from .go1 import GO1
from .go2 import GO2
from .h1 import H1
from .robot import ActuatorLaw, DCMotor, ImplicitPD, Mirror, Robot

ROBOTS: dict[str, Robot] = {robot.name: robot for robot in (ANYMAL_B, ANYMAL_C, ANYMAL_D, A1, GO1, GO2, H1, G1)}

__all__ = [
    "A1",
    "ANYMAL_B",
    "ANYMAL_C",
    "ANYMAL_D",
    "G1",
    "GO1",
    "GO2",
    "H1",
    "ROBOTS",
    "ActuatorLaw",
    "DCMotor",
    "ImplicitPD",
    "Mirror",
    "Robot",
]
