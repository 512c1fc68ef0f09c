"""Parameters of one robot, found by system identification and used by training. Data only, stdlib only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class JointParameters:
    """Identified parameters of one joint."""

    stiffness_scale: float = 1.0
    """Factor on the commanded kp."""
    damping_scale: float = 1.0
    """Factor on the commanded kd."""
    strength: float = 1.0
    """Factor on the drive's torque, limit included."""
    armature: float | None = None
    """Rotor inertia at the joint [kg m^2]; None keeps the model's."""
    friction: float | None = None
    """Coulomb friction [N m]; None leaves the model's."""
    viscous: float | None = None
    """Viscous friction [N m s/rad]; None leaves the model's."""


@dataclass(frozen=True, kw_only=True)
class RobotParameters:
    """Identified parameters of one robot. ``std`` has one standard deviation per fitted number, by its path."""

    robot: str
    """Name of the :class:`gaitway_tasks.robots.Robot`."""
    joints: Mapping[str, JointParameters] = field(default_factory=dict)
    delay: float = 0.0
    """Delay from a state to the torque that responds to it [s]."""
    base_mass: float | None = None
    """Mass of the base [kg]; None keeps the model's."""
    base_com: tuple[float, float, float] | None = None
    """Centre of mass of the base in its frame [m]; None leaves the model's."""
    actuator_network: str | None = None
    """File of the actuator network that replaces the drives, beside the parameter file."""
    std: Mapping[str, float] = field(default_factory=dict)
    """Standard deviations, such as {"delay": 0.0004, "joints.FL_hip_joint.armature": 0.001}."""
