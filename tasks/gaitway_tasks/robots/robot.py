"""A robot: joints, bodies, limits, gains, default pose, actuator law, mirror map and model source. Data only."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.hardware import Hardware
from gaitway_files.patterns import matches

from .parameters import JointParameters, RobotParameters


@dataclass(frozen=True, kw_only=True)
class ImplicitPD:
    """Torque = kp (target - q) - kd qd, clipped to +-effort_limit; damping is integrated implicitly.

    ``joints`` are regular expressions of whole joint names. ``armature`` is the inertia that the drive adds to its
    joint [kg m^2]; None keeps the model's.
    """

    stiffness: float
    damping: float
    effort_limit: float
    armature: float | None = None
    joints: tuple[str, ...] = (".*",)


def drive(kp: float, kd: float, effort_limit: float, *joints: str, armature: float | None = None) -> ImplicitPD:
    """Short constructor of :class:`ImplicitPD`."""
    return ImplicitPD(stiffness=kp, damping=kd, effort_limit=effort_limit, armature=armature, joints=joints)


@dataclass(frozen=True, kw_only=True)
class DCMotor:
    """PD torque clipped by the torque-speed line of a DC motor and by the drive's effort limit.

    ``saturation_effort`` [N m] is the stall torque, ``velocity_limit`` [rad/s] the no-load speed; see
    :func:`gaitway_tasks.actuators.dc_motor_torque`. ``armature`` and ``joints`` are as in :class:`ImplicitPD`.
    """

    stiffness: float
    damping: float
    effort_limit: float
    saturation_effort: float
    velocity_limit: float
    armature: float | None = None
    joints: tuple[str, ...] = (".*",)


ActuatorLaw = ImplicitPD | DCMotor


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """One reflection of the robot: how it permutes and flips joints, and which base axis it reverses.

    ``axis`` is "y" for left-right and "x" for front-back. ``pairs`` maps name prefixes onto each other, of which the
    longest counts, so whole names are allowed. ``flip`` lists the name suffixes of the joints whose sign changes.
    """

    axis: str
    pairs: Mapping[str, str]
    flip: tuple[str, ...]

    def image(self, name: str) -> str:
        """Name of the mirror image of a joint or body."""
        swap = {**self.pairs, **{b: a for a, b in self.pairs.items()}}
        prefix = max((p for p in swap if name.startswith(p)), key=len, default="")
        return swap.get(prefix, "") + name[len(prefix) :]


@dataclass(frozen=True, kw_only=True)
class Robot:
    """A robot as data. Joint arrays are in the order of :attr:`joint_names`; angles are in radians."""

    name: str
    joint_names: tuple[str, ...]
    """Canonical order. Every simulator and transport maps to it by name."""
    body_names: tuple[str, ...]
    """Canonical order of the bodies whose contacts are reported; the first is the base."""
    foot_names: tuple[str, ...] = ()
    """Bodies that walk; none if the base is fixed."""
    default_joint_pos: tuple[float, ...]
    joint_limits: tuple[tuple[float, float], ...]
    soft_joint_pos_limit_factor: float
    init_height: float
    """Height of the base at a reset [m]; with ``fixed_base``, where the model has it."""
    fixed_base: bool = False
    """True if the base is fixed to the world, as an arm's is."""
    gravity_compensation: bool = False
    """True if its controller adds the torques that hold its own links up, as a Panda's does."""
    foot_height: float | None = None
    """Height of a foot frame's origin above its sole, standing in the default pose [m]. A trot needs it."""
    actuators: Mapping[str, ActuatorLaw]
    """Groups of joints with one law, by a name of their own, as in Isaac Lab; each joint belongs to exactly one."""
    mjcf: Path
    mirrors: Mapping[str, Mirror] = field(default_factory=dict)
    usd: str | None = None
    hardware: Hardware | None = None
    """Interface of the real robot, if Gaitway can drive it."""
    parameters: RobotParameters | None = None
    """Identified parameters of one individual robot. Simulations use them; controllers do not."""

    @property
    def num_joints(self) -> int:
        """Number of joints J."""
        return len(self.joint_names)

    @property
    def quadruped(self) -> bool:
        """True if it has four legs: then it can trot, and all its joints move at once without touching each other."""
        return len(self.foot_names) == 4

    @property
    def hangs(self) -> bool:
        """True if it is started on a stand: a robot on two feet cannot lie down and stand up by a ramp."""
        return len(self.foot_names) < 4 and not self.fixed_base

    @functools.cached_property
    def joint_actuators(self) -> tuple[ActuatorLaw, ...]:
        """The law of each joint, in canonical order."""
        laws = []
        for name in self.joint_names:
            groups = [
                group for group, law in self.actuators.items() if any(matches(pattern, name) for pattern in law.joints)
            ]
            if len(groups) != 1:
                found = f"is in the actuator groups {', '.join(groups)}" if groups else "is in no actuator group"
                raise UserError(f"joint {name!r} of {self.name} {found}: each joint belongs to exactly one")
            laws.append(self.actuators[groups[0]])
        return tuple(laws)

    @functools.cached_property
    def real_actuators(self) -> tuple[ActuatorLaw, ...]:
        """Identified law of each joint's drive when commanded with :attr:`joint_actuators`, in canonical order."""
        if self.parameters is None:
            return self.joint_actuators
        known = self.parameters.joints
        return tuple(
            _as_identified(law, known[name]) if name in known else law
            for name, law in zip(self.joint_names, self.joint_actuators, strict=True)
        )

    @property
    def base_name(self) -> str:
        """Name of the base, the first of :attr:`body_names`."""
        return self.body_names[0]

    def body_ids(self, pattern: str) -> tuple[int, ...]:
        """Indices of the bodies whose whole name matches the regular expression ``pattern``."""
        return _match(self.name, "body", self.body_names, pattern)

    def joint_ids(self, pattern: str) -> tuple[int, ...]:
        """Indices of the joints whose whole name matches the regular expression ``pattern``."""
        return _match(self.name, "joint", self.joint_names, pattern)

    def soft_joint_limits(self) -> list[tuple[float, float]]:
        """Limits shrunk about their middle by ``soft_joint_pos_limit_factor`` [rad]."""
        return [
            (
                (lo + hi) / 2 - (hi - lo) / 2 * self.soft_joint_pos_limit_factor,
                (lo + hi) / 2 + (hi - lo) / 2 * self.soft_joint_pos_limit_factor,
            )
            for lo, hi in self.joint_limits
        ]

    def replace(self, **changes: Any) -> Robot:
        """Copy of the robot with other values for these fields."""
        return replace(self, **changes)


def _as_identified(law: ActuatorLaw, joint: JointParameters) -> ActuatorLaw:
    """Strength is a factor on every torque: the gains', the limit's and that of the torque-speed line."""
    strength = joint.strength
    law = replace(
        law,
        stiffness=law.stiffness * joint.stiffness_scale * strength,
        damping=law.damping * joint.damping_scale * strength,
        effort_limit=law.effort_limit * strength,
        armature=law.armature if joint.armature is None else joint.armature,
    )
    return replace(law, saturation_effort=law.saturation_effort * strength) if isinstance(law, DCMotor) else law


@functools.cache  # called by terms at every step
def _match(robot: str, kind: str, names: tuple[str, ...], pattern: str) -> tuple[int, ...]:
    found = tuple(i for i, name in enumerate(names) if matches(pattern, name))
    if not found:
        raise UserError(f"robot {robot!r} has no {kind} matching {pattern!r}; it has {', '.join(names)}")
    return found
