"""Read a MuJoCo batch as the robot state that terms read."""

from __future__ import annotations

import mujoco
import numpy as np
import torch
from gaitway_tasks.math import projected_gravity, quat_apply_inverse
from gaitway_tasks.robots import Robot
from mujoco.batch import Batch
from torch import Tensor

from .model import contact_sensor_name

CONTACT_THRESHOLD = 1.0  # [N], Isaac Lab's ContactSensorCfg.force_threshold


class MujocoRobotState:
    """Implements :class:`gaitway_tasks.world.RobotState`; one float32 copy of the batch per control step.

    Positions and velocities are those after the last physics step; accelerations, torques and contact forces are
    those that led to it. Contacts are sampled once per control step. ``root_lin_vel_b`` is the velocity of the base
    frame's origin. ``body_lin_vel_w`` is that of the centres of mass at the start of the last physics step, like the
    contact forces; it and ``body_pos_w``, of the same moment, exist only with ``bodies``.
    """

    body_pos_w: Tensor
    body_lin_vel_w: Tensor
    joint_acc: Tensor
    applied_torque: Tensor
    contact_force_w: Tensor

    def __init__(self, batch: Batch, model: mujoco.MjModel, robot: Robot, *, bodies: bool = False):
        self._qpos, self._qvel, self._qacc = batch.bind("qpos"), batch.bind("qvel"), batch.bind("qacc")
        self._force, self._sensordata = batch.bind("actuator_force"), batch.bind("sensordata")
        joint_ids = [model.joint(name).id for name in robot.joint_names]
        self.qpos_adr = _as_index(model.jnt_qposadr[joint_ids])
        self.qvel_adr = _as_index(model.jnt_dofadr[joint_ids])
        sensed = [name for name in robot.body_names if _has_sensor(model, name)]
        self._sensed = torch.tensor([robot.body_names.index(name) for name in sensed])
        columns = np.concatenate([model.sensor(contact_sensor_name(name)).adr + np.arange(3) for name in sensed])
        self._sensor_columns = _as_index(columns)
        self._feet = torch.tensor([robot.body_names.index(name) for name in robot.foot_names])

        self._motion = _BodyMotion(batch, model, robot) if bodies else None
        n, feet = batch.nsim, len(self._feet)
        self.joint_offset: Tensor | None = None
        self.contact_force_w = torch.zeros(n, len(robot.body_names), 3)
        self.current_air_time = torch.zeros(n, feet)
        self.last_air_time = torch.zeros(n, feet)
        self.current_contact_time = torch.zeros(n, feet)
        self.last_contact_time = torch.zeros(n, feet)
        self.joint_acc = torch.zeros(n, robot.num_joints)
        self.applied_torque = torch.zeros(n, robot.num_joints)
        self.update_kinematics()

    AIR_TIMES = ("current_air_time", "last_air_time", "current_contact_time", "last_contact_time")

    def update_kinematics(self) -> None:
        """Refresh the quantities that depend on positions and velocities alone."""
        qpos, qvel = _float32(self._qpos), _float32(self._qvel)
        self.root_pos_w = qpos[:, 0:3]
        self.root_quat_wxyz = qpos[:, 3:7]
        self.root_lin_vel_b = quat_apply_inverse(self.root_quat_wxyz, qvel[:, 0:3])
        self.root_ang_vel_b = qvel[:, 3:6]
        self.projected_gravity_b = projected_gravity(self.root_quat_wxyz)
        self.joint_pos = qpos[:, self.qpos_adr]
        self.joint_vel = qvel[:, self.qvel_adr]
        if self.joint_offset is not None:
            self.joint_pos = self.joint_pos + self.joint_offset

    def update(self, dt: float) -> None:
        """Refresh everything after a control step of ``dt`` [s]."""
        self.update_kinematics()
        self.joint_acc = _float32(self._qacc)[:, self.qvel_adr]
        self.applied_torque = _float32(self._force)
        forces = _float32(self._sensordata)[:, self._sensor_columns]
        self.contact_force_w.index_copy_(1, self._sensed, forces.unflatten(1, (-1, 3)))
        if self._motion is not None:
            self.body_pos_w, self.body_lin_vel_w = self._motion.pos_w(), self._motion.lin_vel_w()
        self._update_air_times(dt)

    def _update_air_times(self, dt: float) -> None:
        """Isaac Lab's ContactSensor bookkeeping."""
        contact = torch.linalg.vector_norm(self.contact_force_w.index_select(1, self._feet), dim=-1) > CONTACT_THRESHOLD
        air_time, contact_time = self.current_air_time + dt, self.current_contact_time + dt
        touched_down = contact & (self.current_air_time > 0.0)
        lifted_off = ~contact & (self.current_contact_time > 0.0)
        self.last_air_time = torch.where(touched_down, air_time, self.last_air_time)
        self.last_contact_time = torch.where(lifted_off, contact_time, self.last_contact_time)
        self.current_air_time = air_time.masked_fill_(contact, 0.0)
        self.current_contact_time = contact_time.mul_(contact)

    def reset(self, env_ids: Tensor) -> None:
        for name in self.AIR_TIMES:
            getattr(self, name)[env_ids] = 0.0
        self.contact_force_w[env_ids] = 0.0
        self.joint_acc[env_ids] = 0.0
        self.applied_torque[env_ids] = 0.0


class _BodyMotion:
    """Velocities of the robot's bodies, from MuJoCo's velocities about the whole robot's centre of mass."""

    def __init__(self, batch: Batch, model: mujoco.MjModel, robot: Robot):
        self._ids = _as_index(np.array([model.body(name).id for name in robot.body_names]))
        self._root = model.body(robot.base_name).rootid[0]
        self._cvel, self._com = batch.bind("cvel"), batch.bind("xipos")
        self._robot_com = batch.bind("subtree_com")
        self._pos = batch.bind("xpos")

    def pos_w(self) -> Tensor:
        """Position of each body frame's origin [m], (N, B, 3)."""
        return _float32(self._pos[:, self._ids])

    def lin_vel_w(self) -> Tensor:
        """Velocity of each body's centre of mass [m/s], (N, B, 3)."""
        twist = _float32(self._cvel[:, self._ids])
        arm = _float32(self._com[:, self._ids] - self._robot_com[:, self._root, None])
        return twist[..., 3:] + torch.linalg.cross(twist[..., :3], arm)


def _float32(view: np.ndarray) -> Tensor:
    return torch.from_numpy(view.astype(np.float32))


def _has_sensor(model: mujoco.MjModel, body: str) -> bool:
    return mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, contact_sensor_name(body)) >= 0


def _as_index(ids: np.ndarray) -> slice | Tensor:
    """A slice where the ids are consecutive (free to take), else an index tensor."""
    ids = np.asarray(ids)
    if len(ids) and (np.diff(ids) == 1).all():
        return slice(int(ids[0]), int(ids[-1]) + 1)
    return torch.as_tensor(ids.astype(np.int64))
