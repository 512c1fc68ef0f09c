"""The robots Gaitway knows, by name."""

from .anymal_c import ANYMAL_C
from .robot import ActuatorLaw, DCMotor, ImplicitPD, Mirror, Robot

ROBOTS: dict[str, Robot] = {robot.name: robot for robot in (ANYMAL_C,)}

__all__ = ["ANYMAL_C", "ROBOTS", "ActuatorLaw", "DCMotor", "ImplicitPD", "Mirror", "Robot"]
