"""Many simulated robots as their contract sees them: what drives them, what they measure, and when they have fallen.

A robot has **fallen** when its base is tilted by more than one radian from the vertical, its base origin is lower than
half its initial height above the ground, or a body other than the last link of a leg (hip, thigh, base, ...) presses on
the ground with more than 1 N. Diverged physics counts as a fall too, the only one of a robot whose base is fixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import mujoco
import numpy as np
from gaitway_files.errors import UserError
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.rotation import quat_apply
from gaitway_tasks.robots.clock import untimed
from gaitway_tasks.robots.mjcf import DriveParameters
from mujoco.batch import Batch

from .estimates import true_estimates
from .feet import FOOT_FIELDS, POINT_FIELDS, SOLE_CONTACTS
from .plant import Plant, start_pose

MAX_TILT = 1.0  # [rad]
MIN_HEIGHT = 0.5  # of the initial height
CONTACT_FORCE = 1.0  # [N]
MAX_STATE = 1e4  # positions and velocities beyond this are not physics any more
TILT, HEIGHT, DIVERGED, CONTACT = "base tilt", "base height", "physics diverged", "contact: "
NOT_FINITE = "policy not finite"
"""Cause of the fall of a robot whose policy gives no number."""


class Policy(Protocol):
    """Interface of :class:`.BatchedPolicy`."""

    @property
    def estimates(self) -> Mapping[str, np.ndarray]: ...

    def __call__(self, signals: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Joint targets [rad] and raw actions, (N, J) each, from signals."""
        ...


def body_id(model: mujoco.MjModel, name: str, what: str) -> int:
    """Number of a body; raises :class:`UserError`, with ``what`` before its name, if the robot has none such."""
    found = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
    if found < 0:
        names = [model.body(body).name for body in range(1, model.nbody)]
        raise UserError(f"{what} body {name!r}: the robot has {', '.join(names)}")
    return found


class RobotBatch:
    """N robots of one plant, stepped together, in the contract's terms."""

    def __init__(self, plant: Plant, contract: Contract, count: int, threads: int = 0) -> None:
        """``threads`` 0 uses all cores; results do not depend on it."""
        self.batch = batch = Batch(plant.model, count, threads)
        self.qpos, self.qvel, self.ctrl = batch.bind("qpos"), batch.bind("qvel"), batch.bind("ctrl")
        self._force, self._sensors = batch.bind("actuator_force"), batch.bind("sensordata")
        self.plant, self.contract = plant, contract
        self.mass = np.full(count, plant.mass)
        self.fixed = plant.fixed_pose is not None
        b, v = plant.base_qpos, plant.base_dof
        self._pos, self._quat = slice(b, b + 3), slice(b + 3, b + 7)
        self._lin, self._ang = slice(v, v + 3), slice(v + 3, v + 6)
        self._still = np.zeros((count, 3))
        self._normal = plant.ground.normal(plant.ground.origin(np.zeros(1))[0, :2])  # of where robots start
        self._foot_columns = plant.foot_sensor[:, None] + np.arange(FOOT_FIELDS)
        if plant.feet is not None:
            fields = np.arange(SOLE_CONTACTS * POINT_FIELDS).reshape(SOLE_CONTACTS, POINT_FIELDS)
            self._contact_columns = plant.feet.contacts[:, None, None] + fields
            self._load_columns, self._middle_columns, self._forward_columns, self._place_columns = (
                address[:, None] + np.arange(3)
                for address in (plant.feet.force, plant.feet.middle, plant.feet.forward, plant.feet.place)
            )
        self._hand_columns = plant.hand_sensor[:, None] + np.arange(3)
        self._fall_columns = plant.fall_sensor[:, None] + np.arange(3)

    def randomise(self, *, friction: np.ndarray, payload: np.ndarray, strength: np.ndarray) -> None:
        """Give each robot its sliding friction, mass added to the base [kg] and factor on the torque, (N,) each."""
        batch, plant = self.batch, self.plant
        batch.expand("geom_friction")[:, plant.soles, 0] = friction[:, None]
        if payload.any():
            mass = plant.model.body_mass[plant.base_body]
            factor = (mass + payload) / mass
            if (factor <= 0).any():
                raise UserError(f"payload {payload.min():.1f} kg: the base weighs {mass:.1f} kg and must keep a mass")
            batch.expand("body_mass")[:, plant.base_body] *= factor
            batch.expand("body_inertia")[:, plant.base_body] *= factor[:, None]  # as in training
            batch.set_const()
            self.mass += payload
        if (strength != 1.0).any():
            DriveParameters(plant.model, batch.expand).write(strength=strength[:, None])

    def place(
        self,
        *,
        yaw: np.ndarray,
        joint_offset: np.ndarray,
        velocity: np.ndarray,
        objects: np.ndarray | None = None,
    ) -> None:
        """Upright on the ground, in the default pose plus ``joint_offset`` [rad], (N, J).

        ``yaw`` [rad] is the heading, (N,), and ``velocity`` [m/s] the base's in the world, vx and vy, (N, 2); a fixed
        base has neither. ``objects`` is by how much each of K objects is off its place [m], (N, K, 3).
        """
        plant = self.plant
        self.batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE)
        limits = np.array(self.contract.joint_pos_limits)
        pose = np.array(self.contract.default_joint_pos) + joint_offset
        self.qpos[:, plant.joint_qpos] = np.clip(pose, limits[:, 0], limits[:, 1])
        self.qvel[:] = 0.0
        if not self.fixed:
            self.qpos[:, self._pos], self.qpos[:, self._quat] = start_pose(plant, plant.start_height, yaw)
            self.qvel[:, plant.base_dof : plant.base_dof + 2] = velocity
        for number, (at, _) in enumerate(self.plant.objects.values()):
            if objects is not None:
                self.qpos[:, at : at + 3] += objects[:, number]
        self.ctrl[:] = self.contract.default_joint_pos
        self.batch.forward()

    def push(self, velocity: np.ndarray) -> None:
        """Add to the base's velocity in the world, vx and vy [m/s], (N, 2); a fixed base is not pushed."""
        if not self.fixed:
            self.qvel[:, self.plant.base_dof : self.plant.base_dof + 2] += velocity

    def step(self, count: int, ids: np.ndarray | None = None) -> None:
        """``count`` physics steps of all robots, or of those in ``ids``."""
        with untimed():
            self.batch.step(ids=ids, nstep=count)

    def base_pos(self) -> np.ndarray:
        """Position of the model's base in the world [m], (N, 3)."""
        return self.plant.base_pose(self.qpos)[:, :3]

    def base_origin(self) -> np.ndarray:
        """Position of the contract's base origin in the world [m], (N, 3)."""
        pose = self.plant.base_pose(self.qpos)
        return self.plant.frame.position(pose[:, :3], pose[:, 3:])

    def base_quat(self) -> np.ndarray:
        """Orientation of the contract's base frame, (N, 4)."""
        return self.plant.frame.orientation(self.plant.base_pose(self.qpos)[:, 3:])

    def gyro(self) -> np.ndarray:
        """Angular velocity of the contract's base in its own frame [rad/s], (N, 3)."""
        return self._still if self.fixed else self.plant.frame.ang_vel(self.qvel[:, self._ang])

    def lin_vel(self) -> np.ndarray:
        """Velocity of the contract's base in its own frame [m/s], (N, 3)."""
        if self.fixed:
            return self._still
        return self.plant.frame.lin_vel(self.qpos[:, self._quat], self.qvel[:, self._lin], self.qvel[:, self._ang])

    def torque(self) -> np.ndarray:
        """Torque of each drive in the last physics step [N m], (N, J)."""
        return self._force

    def signals(self) -> dict[str, np.ndarray]:
        """Signals of encoders and IMU, which a fixed base has not, and the estimates that the policy asks for."""
        encoders = {"joint_pos": self.qpos[:, self.plant.joint_qpos], "joint_vel": self.qvel[:, self.plant.joint_dof]}
        if self.fixed and not self.contract.estimated:
            return encoders
        quat, imu = self.base_quat(), {}
        if not self.fixed:
            imu = {"imu_quat_wxyz": quat, "gyro": self.gyro()}
        told = (self.contract, self.base_origin(), quat, self.lin_vel, self.plant.ground, self.object_pos())
        return {**encoders, **imu, **true_estimates(*told)}

    def object_pos(self) -> dict[str, np.ndarray]:
        """Place of the middle of each object in the world [m], (N, 3)."""
        return {name: self.qpos[:, at : at + 3] for name, (at, _) in self.plant.objects.items()}

    def positions(self, bodies: Sequence[str]) -> dict[str, np.ndarray]:
        """Positions of the origins of ``bodies`` in the world [m], (N, 3) each."""
        found = self.batch.bind("xpos")  # what is bound after a pass is filled by the next one
        self.batch.forward(stage=int(mujoco.mjtStage.mjSTAGE_POS))
        return {name: found[:, body_id(self.plant.model, name, "the suite records the")] for name in bodies}

    def measure(self) -> dict[str, np.ndarray]:
        """Measurements of an outside observer."""
        quat, gyro = self.base_quat(), self.gyro()
        feet = self._sensors[:, self._foot_columns]  # (N, F, 7)
        contact = np.linalg.norm(feet[..., 1:4], axis=-1) > CONTACT_FORCE
        return {
            "height": self.plant.ground.above(self.base_origin()),
            "hands": self._sensors[:, self._hand_columns],  # (N, H, 3)
            "base_pos": self.base_pos(),
            "base_quat": quat,
            "lin_vel": self.lin_vel(),
            "ang_vel": gyro,
            "joint_pos": self.qpos[:, self.plant.joint_qpos],
            "joint_vel": self.qvel[:, self.plant.joint_dof],
            "torque": self._force,
            "foot_contact": contact,
            "foot_slip": np.linalg.norm(feet[..., 5:7], axis=-1) * contact,
        }

    @property
    def foot_readings(self) -> np.ndarray:
        """Raw readings for :meth:`measure_feet`, as of the last physics step, (N, D); not a copy."""
        return self._sensors

    def measure_feet(self, readings: np.ndarray) -> dict[str, np.ndarray]:
        """Measurements of the feet in physics steps, (..., N, F) each; the plant must have been built with ``gait``.

        ``readings`` (..., N, D) are :attr:`foot_readings` of one or many steps.

        Contact (bool, more than 1 N along the ground's normal), clearance of the lowest point of the foot's shapes
        above the ground [m], slip [m/s] (mean tangential speed of the contact points that press with more than 1 N;
        0 without one), the ground's force on the foot along its normal and across it [N], contact of the rear and of
        the front half of the sole, and how far left of the base it is [m].
        """
        assert self.plant.feet is not None
        frame = self.plant.frame
        clearance = np.stack([readings[..., shapes].min(-1) for shapes in self.plant.feet.clearance], -1)
        points = readings[..., self._contact_columns]  # (..., N, F, SOLE_CONTACTS, POINT_FIELDS)
        loaded = points[..., 1] > CONTACT_FORCE
        speed = np.hypot(points[..., 8], points[..., 9])
        from_middle = points[..., 4:7] - readings[..., self._middle_columns][..., None, :]
        ahead = (from_middle * readings[..., self._forward_columns][..., None, :]).sum(-1)
        force = readings[..., self._load_columns]
        normal = force @ self._normal
        across = np.linalg.norm(force - normal[..., None] * self._normal, axis=-1)
        return {
            "contact": np.abs(normal) > CONTACT_FORCE,
            "clearance": clearance,
            "slip": (speed * loaded).sum(-1) / np.maximum(loaded.sum(-1), 1),
            "normal_force": np.abs(normal),
            "horizontal_force": across,
            "heel": (loaded & (ahead < 0)).any(-1),
            "toe": (loaded & (ahead >= 0)).any(-1),
            "left": (readings[..., self._place_columns] - frame.origin) @ frame.rotation[1],
        }

    def falls(self) -> list[tuple[np.ndarray, str]]:
        """Falls by cause: a mask (N,) bool and the cause of each; earlier causes win."""
        finite = (np.abs(self.qpos) < MAX_STATE).all(1) & (np.abs(self.qvel) < MAX_STATE).all(1)  # NaN is not less
        if not finite.all():
            self.qpos[~finite] = self.plant.model.qpos0
            self.qvel[~finite] = 0.0
        if self.fixed:
            return [(~finite, DIVERGED)]
        height = self.plant.ground.base_height(self.base_pos())
        press = np.linalg.norm(self._sensors[:, self._fall_columns], axis=-1)
        return fall_causes(self.plant, finite, press, self.base_quat(), height)


def fall_causes(
    plant: Plant, finite: np.ndarray, press: np.ndarray, base_quat: np.ndarray, height: np.ndarray
) -> list[tuple[np.ndarray, str]]:
    """Falls by cause: a mask (...,) bool and the cause of each; earlier causes win.

    ``finite`` (...,) says whose physics did not diverge, ``press`` (..., B) is the force on each of the plant's
    ``fall_bodies`` [N], ``base_quat`` (..., 4) the orientation and ``height`` (...,) the height [m] of the base.
    """
    upright = quat_apply(base_quat, np.array([0.0, 0.0, 1.0]))[..., 2]
    pressed = press > CONTACT_FORCE
    return [
        (~finite, DIVERGED),
        *((pressed[..., i], f"{CONTACT}{name}") for i, name in enumerate(plant.fall_bodies)),
        (upright < np.cos(MAX_TILT), TILT),
        (height < MIN_HEIGHT * plant.start_height, HEIGHT),
    ]
