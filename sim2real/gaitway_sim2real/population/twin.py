"""One robot of the same kind as a bundle's: everything in which it differs from the model, and its simulation."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_tasks.robots.mjcf import DriveParameters

from ..mujoco.physics import CONES, Physics
from ..mujoco.plant import FixedFeet, Plant, build_plant

TIMESTEP = 0.004
"""Longest physics step of a twin [s]; the suite's is 5 ms."""
MOST_TAKEN_AWAY = 0.5
"""Share of the base's mass that a negative payload takes away at most."""


@dataclass(frozen=True, kw_only=True)
class Twin:
    """Differences from the bundle's model; the default is the model itself. B bodies of the model, J joints.

    Factors multiply the model's value. Empty tuples mean that no link or joint has a difference of its own.
    """

    payload: float = 0.0
    """Mass added to the base, as a share of the robot's mass; typically -0.1 to 0.2."""
    payload_at: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Place of that mass from the base's centre of mass, in standing heights."""
    link_mass: tuple[float, ...] = ()
    """Factor on the mass of each body, (B,)."""
    link_inertia: tuple[float, ...] = ()
    """Further factor on the inertia of each body, (B,)."""
    link_length: tuple[float, ...] = ()
    """Factor on all distances within each body but the base, (B,): its length as far as the next joint."""
    foot_size: float = 1.0
    """Factor on the shapes that feet stand on."""
    foot_shape: str | None = None
    """``capsule`` or ``worn``, for ball feet."""
    friction: float = 0.8
    """Sliding friction of the floor."""
    softness: float = 0.0
    """Time constant of the contact [s]; 0 keeps the model's."""
    impedance: float = 0.0
    """Largest impedance of the contact: the smaller, the further feet sink in; 0 keeps the model's."""
    cone: str | None = None
    """Friction cone, ``pyramidal`` or ``elliptic``; None keeps the model's."""
    impratio: float = 0.0
    """Stiffness of friction over that of normal contact; 0 keeps the model's."""
    strength: float = 1.0
    """Factor on the torque of all motors."""
    joint_strength: tuple[float, ...] = ()
    """Further factor for each motor, (J,)."""
    stiffness: float = 1.0
    """Factor on kp."""
    damping: float = 1.0
    """Factor on kd."""
    armature: float = 1.0
    """Factor on the joints' armature."""
    joint_friction: float = 0.0
    """Dry friction of the joints, as a share of their effort limits."""
    delay: float = 0.0
    """Time from the policy's output to the drives [s]."""
    jitter: float = 0.0
    """Largest further delay, drawn for each control step [s]; targets do not overtake each other."""
    bandwidth: float = math.inf
    """Corner frequency of the drives' filter of targets [Hz]."""
    backlash: float = 0.0
    """Play of the gears [rad]: encoder and drive are on the motor's side of it."""
    encoder_offset: tuple[float, ...] = ()
    """What each encoder reads too much [rad], (J,)."""
    imu_tilt: tuple[float, float] = (0.0, 0.0)
    """Mounting error of the IMU about x and y [rad]."""
    imu_drift: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Drift of the orientation [rad/s]."""
    gyro_bias: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """[rad/s]"""
    gyro_noise: float = 0.0
    """Standard deviation [rad/s]."""
    orientation_noise: float = 0.0
    """Standard deviation about each axis [rad]."""
    joint_pos_noise: float = 0.0
    """Standard deviation [rad]."""
    joint_vel_noise: float = 0.0
    """Standard deviation [rad/s]."""


class Kind:
    """The robot of a bundle, as twins of it are built. Plants with other feet are compiled once."""

    def __init__(self, bundle: Path, contract: Contract) -> None:
        """``bundle`` may also be the robot's MJCF."""
        self.contract, self._xml = contract, bundle / "robot.xml" if bundle.is_dir() else bundle
        self._plants: dict[tuple[float, str | None], Plant] = {}
        self.plant = self.with_feet(1.0, None)

    def with_feet(self, size: float, shape: str | None) -> Plant:
        """The plant whose feet have another size or shape; feet that cannot have it stay as they are."""
        if (size, shape) not in self._plants:
            physics = Physics(timestep=TIMESTEP, foot_size=size, foot_shape=shape)
            try:
                plant = build_plant(self.contract, self._xml, self._xml, physics=physics)
            except FixedFeet:
                plant = self.with_feet(size, None) if shape is not None else self.with_feet(1.0, None)
            self._plants[size, shape] = plant
        return self._plants[size, shape]

    def model(self, twin: Twin) -> mujoco.MjModel:
        """Compiled model of a twin: everything but the delays, the filter and the sensors."""
        plant = self.with_feet(twin.foot_size, twin.foot_shape)
        model = copy.copy(plant.model)
        _shape(model, plant, twin)
        _load(model, plant, twin)
        _floor(model, plant, twin)
        _drive(model, plant, twin)
        mujoco.mj_setConst(model, mujoco.MjData(model))
        return model


def _shape(model: mujoco.MjModel, plant: Plant, twin: Twin) -> None:
    """Masses and lengths of the links."""
    if twin.link_mass:
        model.body_mass *= twin.link_mass
        model.body_inertia *= np.array(twin.link_mass)[:, None]
    if twin.link_inertia:
        model.body_inertia *= np.array(twin.link_inertia)[:, None]
    if twin.link_length:
        factor = np.array(twin.link_length)
        factor[[0, plant.base_body]] = 1.0
        model.body_ipos *= factor[:, None]
        model.body_pos *= factor[model.body_parentid][:, None]
        model.geom_pos *= factor[model.geom_bodyid][:, None]


def _load(model: mujoco.MjModel, plant: Plant, twin: Twin) -> None:
    base = plant.base_body
    mass = float(model.body_mass[base])
    added = max(twin.payload * plant.mass, -MOST_TAKEN_AWAY * mass)
    factor = (mass + added) / mass
    model.body_mass[base] *= factor
    model.body_inertia[base] *= factor  # as in training
    model.body_ipos[base] += added / (mass + added) * plant.stand_height * np.array(twin.payload_at)


def _floor(model: mujoco.MjModel, plant: Plant, twin: Twin) -> None:
    model.geom_friction[plant.soles, 0] = twin.friction
    if twin.softness:
        model.geom_solref[plant.soles] = twin.softness, 1.0
    if twin.impedance:
        model.geom_solimp[plant.soles, :2] = min(0.9, twin.impedance - 0.03), twin.impedance
    if twin.cone is not None:
        model.opt.cone = CONES[twin.cone]
    if twin.impratio:
        model.opt.impratio = twin.impratio


def _drive(model: mujoco.MjModel, plant: Plant, twin: Twin) -> None:
    drives = DriveParameters(model)
    model.dof_armature[plant.joint_dof] *= twin.armature
    model.dof_frictionloss[plant.joint_dof] += twin.joint_friction * drives.effort_limit
    drives.write(
        twin.stiffness * drives.stiffness,
        twin.damping * drives.damping,
        strength=twin.strength * np.array(twin.joint_strength or 1.0),
    )


class Motors:
    """What is between the targets of a policy and the drives of N twins: delay, jitter, filter and gear play."""

    def __init__(self, plant: Plant, contract: Contract, twins: Sequence[Twin]) -> None:
        n, j = len(twins), contract.num_joints
        self._dt, self._control_dt = float(plant.model.opt.timestep), contract.control_dt
        self._delay, self._jitter = _column(twins, "delay"), _column(twins, "jitter")
        late = float((self._delay + self._jitter).max())
        rest = np.tile(np.asarray(contract.default_joint_pos, float), (n, 1))
        kept = math.ceil(late / self._control_dt) + 2
        self._targets = np.tile(rest, (kept, 1, 1))  # newest first
        self._due = np.full((kept, n), -math.inf)
        self._filtered = rest
        self._share = -np.expm1(-2.0 * math.pi * self._dt * _column(twins, "bandwidth"))[:, None]
        self._play = _column(twins, "backlash")[:, None]
        drives = DriveParameters(plant.model)
        # Gear play follows the sign of the torque. It turns over within a band in which the drive's own answer to it,
        # kp x play, is less than the torque that caused it.
        self._band = np.maximum(0.05 * drives.effort_limit, drives.stiffness * self._play)
        self.offset = np.array([twin.encoder_offset or [0.0] * j for twin in twins])
        """What encoders read too much [rad], (N, J)."""
        self.slack = np.zeros((n, j))
        """How far the motors are ahead of the joints, within the play of the gears [rad], (N, J)."""

    def command(self, now: float, target: np.ndarray, lag: np.ndarray) -> None:
        """Send targets (N, J) [rad] at ``now`` [s]; ``lag`` (N,) is each one's share of its jitter."""
        due = now + self._delay + lag * self._jitter
        self._targets = np.concatenate((target[None], self._targets[:-1]))
        self._due = np.concatenate((np.maximum(due, self._due[0])[None], self._due[:-1]))

    def targets(self, now: float, torque: np.ndarray) -> np.ndarray:
        """Targets of the drives in the physics step from ``now`` [s] on, (N, J); ``torque`` [N m] is the last one."""
        newest = (self._due <= now + 1e-9).argmax(0)
        wanted = self._targets[newest, np.arange(newest.size)]
        self._filtered = self._filtered + self._share * (wanted - self._filtered)
        self.slack = 0.5 * self._play * np.clip(torque / self._band, -1.0, 1.0)
        return np.asarray(self._filtered - self.offset - self.slack)


def _column(twins: Sequence[Twin], name: str) -> np.ndarray:
    return np.array([getattr(twin, name) for twin in twins], float)


def columns(twins: Sequence[Twin], *names: str) -> Mapping[str, np.ndarray]:
    """Fields of N twins by name, (N,) or (N, k)."""
    return {name: _column(twins, name) for name in names}
