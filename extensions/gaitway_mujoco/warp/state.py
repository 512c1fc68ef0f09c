"""Read MuJoCo Warp's state as the robot state that terms read, in torch on its device."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import torch
from gaitway_tasks.math import projected_gravity, quat_apply_inverse
from gaitway_tasks.robots import Robot
from torch import Tensor

from ..model import contact_sensor_name
from ..state import CONTACT_THRESHOLD, NOW, MujocoRobotState, fixed_pose, has_sensor


class WarpRobotState:
    """Implements :class:`gaitway_tasks.world.RobotState` as :class:`gaitway_mujoco.state.MujocoRobotState` does.

    ``read`` gives the simulation's arrays by name as tensors (N, ...) that share its memory; what terms get are copies,
    made once in each control step.
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

    AIR_TIMES = MujocoRobotState.AIR_TIMES

    def __init__(self, read: Callable[[str], Tensor], model: mujoco.MjModel, robot: Robot, *, bodies: str | None):
        self._qpos, self._qvel, self._qacc = read("qpos"), read("qvel"), read("qacc")
        self._force, self._sensordata = read("actuator_force"), read("sensordata")
        n, feet, device = len(self._qpos), len(robot.foot_names), self._qpos.device

        def index(values: object) -> Tensor:
            return torch.as_tensor(values, dtype=torch.int64, device=device)

        joints = [model.joint(name).id for name in robot.joint_names]
        self.qpos_adr, self.qvel_adr = index(model.jnt_qposadr[joints]), index(model.jnt_dofadr[joints])
        sensed = [name for name in robot.body_names if has_sensor(model, name)]
        starts = index([model.sensor(contact_sensor_name(name)).adr[0] for name in sensed])
        self._sensed = index([robot.body_names.index(name) for name in sensed])
        self._columns = starts[:, None] + torch.arange(3, device=device)
        self._feet = index([robot.body_names.index(name) for name in robot.foot_names])
        self._bodies = index([model.body(name).id for name in robot.body_names])
        self._root = int(model.body(robot.base_name).rootid[0])
        self._read, self._moment = read, bodies
        self._fixed: tuple[Tensor, ...] | None = None
        if robot.fixed_base:
            self._fixed = tuple(torch.from_numpy(part).to(device) for part in fixed_pose(model, robot))
        self.joint_offset: Tensor | None = None
        self.contact_force_w = torch.zeros(n, len(robot.body_names), 3, device=device)
        self.contact_force_norm = torch.zeros(n, len(robot.body_names), device=device)
        self.current_air_time, self.last_air_time = torch.zeros(2, n, feet, device=device)
        self.current_contact_time, self.last_contact_time = torch.zeros(2, n, feet, device=device)
        self.joint_acc, self.applied_torque = torch.zeros(2, n, robot.num_joints, device=device)
        self.update_kinematics()

    def update_kinematics(self) -> None:
        """Refresh the quantities that depend on positions and velocities alone."""
        qpos, qvel = self._qpos, self._qvel
        if self._fixed is None:
            self.root_pos_w, self.root_quat_wxyz = qpos[:, :3].clone(), qpos[:, 3:7].clone()
            self.root_lin_vel_b = quat_apply_inverse(self.root_quat_wxyz, qvel[:, :3])
            self.root_ang_vel_b = qvel[:, 3:6].clone()
            self.projected_gravity_b = projected_gravity(self.root_quat_wxyz)
        else:
            for name, part in zip(MujocoRobotState.KINEMATICS, self._fixed, strict=False):
                setattr(self, name, part.expand(len(qpos), -1).clone())
        self.joint_pos, self.joint_vel = qpos[:, self.qpos_adr], qvel[:, self.qvel_adr]
        if self.joint_offset is not None:
            self.joint_pos = self.joint_pos + self.joint_offset
        if self._moment == NOW:
            self._read_bodies()

    def _read_bodies(self) -> None:
        """Poses and twists of bodies, from MuJoCo's velocities about the whole robot's centre of mass."""
        pos, quat, com, cvel = (self._read(name)[:, self._bodies] for name in ("xpos", "xquat", "xipos", "cvel"))
        arm = com - self._read("subtree_com")[:, self._root, None]
        self.body_pos_w, self.body_quat_wxyz = pos, quat
        self.body_lin_vel_w = cvel[..., 3:] + torch.linalg.cross(cvel[..., :3], arm)
        self.body_ang_vel_w = cvel[..., :3]

    def update(self, dt: float) -> None:
        """Refresh everything after a control step of ``dt`` [s]."""
        self.update_kinematics()
        self.joint_acc, self.applied_torque = self._qacc[:, self.qvel_adr], self._force.clone()
        self.contact_force_w = torch.zeros_like(self.contact_force_w)
        self.contact_force_w[:, self._sensed] = self._sensordata[:, self._columns]
        if self._moment not in (None, NOW):
            self._read_bodies()
        self._update_air_times(dt)

    def _update_air_times(self, dt: float) -> None:
        """Size of the contact forces, and Isaac Lab's ContactSensor bookkeeping."""
        self.contact_force_norm = torch.linalg.vector_norm(self.contact_force_w, dim=-1)
        contact = self.contact_force_norm[:, self._feet] > CONTACT_THRESHOLD
        air_time, contact_time = self.current_air_time + dt, self.current_contact_time + dt
        touched_down, lifted_off = contact & (self.current_air_time > 0.0), ~contact & (self.current_contact_time > 0.0)
        self.last_air_time = torch.where(touched_down, air_time, self.last_air_time)
        self.last_contact_time = torch.where(lifted_off, contact_time, self.last_contact_time)
        self.current_air_time, self.current_contact_time = air_time * ~contact, contact_time * contact

    def reset(self, env_ids: Tensor) -> None:
        for name in (*self.AIR_TIMES, "contact_force_w", "contact_force_norm", "joint_acc", "applied_torque"):
            setattr(self, name, getattr(self, name).index_fill(0, env_ids, 0.0))
