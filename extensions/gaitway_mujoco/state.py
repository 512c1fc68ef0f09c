"""Read a MuJoCo batch as the robot state that terms read."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import torch
from gaitway_tasks.math import quat_apply_inverse
from gaitway_tasks.robots import Robot
from mujoco.batch import Batch
from torch import Tensor

from .model import contact_sensor_name

LED_TO_IT, NOW = "led to it", "now"
"""Moments of the poses and twists of bodies."""
CONTACT_THRESHOLD = 1.0  # [N], Isaac Lab's ContactSensorCfg.force_threshold


class MujocoRobotState:
    """Implements :class:`gaitway_tasks.world.RobotState`; one float32 copy of the batch per control step.

    It is computed in numpy, whose small operations cost a fraction of torch's. Positions and velocities are those after
    the last physics step; accelerations, torques and contact forces are those that led to it. Contacts are sampled once
    per control step. ``root_lin_vel_b`` is the velocity of the base frame's origin. Poses and twists of bodies
    exist only with ``bodies``: as "led to it" they are those at the start of the last physics step, like the contact
    forces, and as "now" those after it, which takes the batch's stage VEL.
    """

    root_pos_w: Tensor
    root_quat_wxyz: Tensor
    root_lin_vel_b: Tensor
    root_ang_vel_b: Tensor
    projected_gravity_b: Tensor
    joint_pos: Tensor
    joint_vel: Tensor
    body_pos_w: Tensor
    body_quat_wxyz: Tensor
    body_lin_vel_w: Tensor
    body_ang_vel_w: Tensor
    joint_acc: Tensor
    applied_torque: Tensor
    contact_force_w: Tensor

    def __init__(self, batch: Batch, model: mujoco.MjModel, robot: Robot, *, bodies: str | None = None):
        self._batch = batch
        self._qpos, self._qvel, self._qacc = batch.bind("qpos"), batch.bind("qvel"), batch.bind("qacc")
        self._force, self._sensordata = batch.bind("actuator_force"), batch.bind("sensordata")
        joint_ids = [model.joint(name).id for name in robot.joint_names]
        self.qpos_adr = _as_index(model.jnt_qposadr[joint_ids])
        self.qvel_adr = _as_index(model.jnt_dofadr[joint_ids])
        sensed = [name for name in robot.body_names if has_sensor(model, name)]
        starts = [int(model.sensor(contact_sensor_name(name)).adr[0]) for name in sensed]
        self._sensed = _runs([robot.body_names.index(name) for name in sensed], starts)
        self._feet = _as_index(np.array([robot.body_names.index(name) for name in robot.foot_names]))

        self._motion = None if bodies is None else _BodyMotion(batch, model, robot)
        self._now = bodies == NOW
        self._fixed = fixed_pose(model, robot) if robot.fixed_base else None
        n, feet = batch.nsim, len(robot.foot_names)
        self.joint_offset: Tensor | None = None
        self.contact_force_w = torch.zeros(n, len(robot.body_names), 3)
        self.contact_force_norm = torch.zeros(n, len(robot.body_names))
        self.current_air_time = torch.zeros(n, feet)
        self.last_air_time = torch.zeros(n, feet)
        self.current_contact_time = torch.zeros(n, feet)
        self.last_contact_time = torch.zeros(n, feet)
        self.joint_acc = torch.zeros(n, robot.num_joints)
        self.applied_torque = torch.zeros(n, robot.num_joints)
        self.update_kinematics()

    AIR_TIMES = ("current_air_time", "last_air_time", "current_contact_time", "last_contact_time")

    KINEMATICS = (
        "root_pos_w",
        "root_quat_wxyz",
        "root_lin_vel_b",
        "root_ang_vel_b",
        "projected_gravity_b",
        "joint_pos",
        "joint_vel",
    )

    def update_kinematics(self) -> None:
        """Refresh the quantities that depend on positions and velocities alone."""
        for name, values in zip(self.KINEMATICS, self._kinematics(slice(None)), strict=True):
            setattr(self, name, torch.from_numpy(values))
        if self._now:
            self._read_bodies()

    def correct_kinematics(self, env_ids: np.ndarray) -> None:
        """:meth:`update_kinematics` in the rows of ``env_ids`` (n,) alone."""
        for name, values in zip(self.KINEMATICS, self._kinematics(env_ids), strict=True):
            getattr(self, name).numpy()[env_ids] = values
        if self._now:
            self._batch.forward(np.unique(env_ids), stage=int(mujoco.mjtStage.mjSTAGE_VEL))
            self._read_bodies()

    def _read_bodies(self) -> None:
        assert self._motion is not None
        self.body_pos_w, self.body_quat_wxyz = self._motion.pose_w()
        self.body_lin_vel_w, self.body_ang_vel_w = self._motion.twist_w()

    def _kinematics(self, rows: slice | np.ndarray) -> tuple[np.ndarray, ...]:
        """Values of :data:`KINEMATICS` in some rows."""
        qpos, qvel = self._qpos[rows].astype(np.float32), self._qvel[rows].astype(np.float32)
        joint_pos = qpos[:, self.qpos_adr]
        if self.joint_offset is not None:
            joint_pos = joint_pos + self.joint_offset.numpy()[rows]
        return *self._root(qpos, qvel), joint_pos, qvel[:, self.qvel_adr]

    def _root(self, qpos: np.ndarray, qvel: np.ndarray) -> tuple[np.ndarray, ...]:
        """Pose, twist and gravity of the base; a floating one's numbers are the first of the state."""
        if self._fixed is not None:
            return tuple(np.tile(values, (len(qpos), 1)) for values in self._fixed)
        quat = qpos[:, 3:7]
        lin_vel_b = quat_apply_inverse(torch.from_numpy(quat), torch.from_numpy(qvel[:, 0:3]))
        return qpos[:, 0:3], quat, lin_vel_b.numpy(), qvel[:, 3:6], _projected_gravity(quat)

    def update(self, dt: float) -> None:
        """Refresh everything after a control step of ``dt`` [s]."""
        self.update_kinematics()
        self.joint_acc = _float32(self._qacc[:, self.qvel_adr])
        self.applied_torque = _float32(self._force)
        forces = self.contact_force_w.flatten(1).numpy()
        for bodies, columns in self._sensed:
            forces[:, bodies] = self._sensordata[:, columns]
        if self._motion is not None and not self._now:
            self._read_bodies()
        self._update_air_times(dt)

    def _update_air_times(self, dt: float) -> None:
        """Size of the contact forces, and Isaac Lab's ContactSensor bookkeeping."""
        self.contact_force_norm = torch.linalg.vector_norm(self.contact_force_w, dim=-1)
        contact = self.contact_force_norm.numpy()[:, self._feet] > CONTACT_THRESHOLD
        air_time, last_air_time, contact_time, last_contact_time = (getattr(self, n).numpy() for n in self.AIR_TIMES)
        next_air_time, next_contact_time = air_time + np.float32(dt), contact_time + np.float32(dt)
        touched_down = contact & (air_time > 0.0)
        lifted_off = ~contact & (contact_time > 0.0)
        self.last_air_time = torch.from_numpy(np.where(touched_down, next_air_time, last_air_time))
        self.last_contact_time = torch.from_numpy(np.where(lifted_off, next_contact_time, last_contact_time))
        self.current_air_time = torch.from_numpy(np.where(contact, np.float32(0.0), next_air_time))
        self.current_contact_time = torch.from_numpy(next_contact_time * contact)

    def reset(self, env_ids: np.ndarray) -> None:
        for name in (*self.AIR_TIMES, "contact_force_w", "contact_force_norm", "joint_acc", "applied_torque"):
            getattr(self, name).numpy()[env_ids] = 0.0


class _BodyMotion:
    """Poses and twists of the robot's bodies, from MuJoCo's velocities about the whole robot's centre of mass."""

    def __init__(self, batch: Batch, model: mujoco.MjModel, robot: Robot):
        self._ids = _as_index(np.array([model.body(name).id for name in robot.body_names]))
        self._root = model.body(robot.base_name).rootid[0]
        self._cvel, self._com = batch.bind("cvel"), batch.bind("xipos")
        self._robot_com = batch.bind("subtree_com")
        self._pos, self._quat = batch.bind("xpos"), batch.bind("xquat")

    def pose_w(self) -> tuple[Tensor, Tensor]:
        """Origin of each body frame [m], (N, B, 3), and its quaternion, (N, B, 4)."""
        return _float32(self._pos[:, self._ids]), _float32(self._quat[:, self._ids])

    def twist_w(self) -> tuple[Tensor, Tensor]:
        """Velocity of each body's centre of mass [m/s] and the body's angular velocity [rad/s], (N, B, 3) each."""
        twist = _float32(self._cvel[:, self._ids])
        com = self._com[:, self._ids]
        # Rows of the same length are quicker to subtract than rows of three numbers.
        robot_com = np.tile(self._robot_com[:, self._root], com.shape[1])
        arm = _float32(com.reshape(len(com), -1) - robot_com).unflatten(1, (-1, 3))
        return twist[..., 3:] + torch.linalg.cross(twist[..., :3], arm), twist[..., :3]


def fixed_pose(model: mujoco.MjModel, robot: Robot) -> tuple[np.ndarray, ...]:
    """Position, quaternion, linear and angular velocity and gravity of a base that does not move."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    base, still = data.body(robot.base_name), np.zeros(3, np.float32)
    quat = base.xquat.astype(np.float32)
    return base.xpos.astype(np.float32), quat, still, still, _projected_gravity(quat[None])[0]


def _float32(view: np.ndarray) -> Tensor:
    return torch.from_numpy(view.astype(np.float32))


def _projected_gravity(quat_wxyz: np.ndarray) -> np.ndarray:
    """:func:`gaitway_tasks.math.projected_gravity` of (n, 4), (n, 3)."""
    w, x, y, z = quat_wxyz.T.copy()
    gravity = np.empty((len(w), 3), np.float32)
    gravity[:, 0] = 2.0 * (w * y - x * z)
    gravity[:, 1] = -2.0 * (y * z + w * x)
    gravity[:, 2] = 2.0 * (x * x + y * y) - 1.0
    return gravity


def has_sensor(model: mujoco.MjModel, body: str) -> bool:
    """True if ``body`` has the contact sensor of :func:`gaitway_mujoco.model.build_model`."""
    return mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, contact_sensor_name(body)) >= 0


def _runs(bodies: Sequence[int], starts: Sequence[int]) -> list[tuple[slice, slice]]:
    """Columns of the forces on ``bodies`` in rows (N, 3 B), and of their sensors, three from each of ``starts``.

    Neighbours are taken together: slices cost a fraction of indices.
    """
    runs: list[list[int]] = []  # first body, first column, number
    for body, start in zip(bodies, starts, strict=True):
        if runs and (body, start) == (runs[-1][0] + runs[-1][2], runs[-1][1] + 3 * runs[-1][2]):
            runs[-1][2] += 1
        else:
            runs.append([body, start, 1])
    return [(slice(3 * body, 3 * (body + n)), slice(start, start + 3 * n)) for body, start, n in runs]


def _as_index(ids: np.ndarray) -> slice | np.ndarray:
    """A slice where the ids are consecutive (free to take), else an index array."""
    ids = np.asarray(ids)
    if len(ids) and (np.diff(ids) == 1).all():
        return slice(int(ids[0]), int(ids[-1]) + 1)
    return ids.astype(np.int64)
