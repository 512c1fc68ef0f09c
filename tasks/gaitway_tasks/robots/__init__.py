"""The robots Gaitway knows, by name."""

from .a1 import A1
from .anymal_c import ANYMAL_C
from .go1 import GO1
from .go2 import GO2
from .robot import ActuatorLaw, DCMotor, ImplicitPD, Mirror, Robot

ROBOTS: dict[str, Robot] = {robot.name: robot for robot in (ANYMAL_C, GO2, GO1, A1)}

__all__ = ["A1", "ANYMAL_C", "GO1", "GO2", "ROBOTS", "ActuatorLaw", "DCMotor", "ImplicitPD", "Mirror", "Robot"]
