"""What system identification finds out about one robot, and what training takes from it. Data only, stdlib only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class JointParameters:
    """One joint as it really is."""

    stiffness_scale: float = 1.0
    """The drive's kp is this times what was commanded."""
    damping_scale: float = 1.0
    """Likewise kd."""
    strength: float = 1.0
    """The drive's torque is this times what it should be, limit included."""
    armature: float | None = None
    """[kg m^2]; None leaves the model's."""
    friction: float | None = None
    """Coulomb friction [N m]; None leaves the model's."""
    viscous: float | None = None
    """Viscous friction [N m s/rad]; None leaves the model's."""


@dataclass(frozen=True, kw_only=True)
class RobotParameters:
    """One robot as it really is. ``std`` has one standard deviation for each number that was fitted, by its path."""

    robot: str
    """Name of the :class:`gaitway_tasks.robots.Robot`."""
    joints: Mapping[str, JointParameters] = field(default_factory=dict)
    delay: float = 0.0
    """From a state to the torque that answers it [s]."""
    base_mass: float | None = None
    """[kg]; None leaves the model's."""
    base_com: tuple[float, float, float] | None = None
    """Centre of mass of the base in its frame [m]; None leaves the model's."""
    actuator_network: str | None = None
    """File of a network that stands for the drives, beside the parameter file."""
    std: Mapping[str, float] = field(default_factory=dict)
    """Such as {"delay": 0.0004, "joints.FL_hip_joint.armature": 0.001}."""
