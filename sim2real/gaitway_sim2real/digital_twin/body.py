"""The twin's body: a robot's MJCF on a floor, on its own feet or hung up, driven by torque commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from gaitway_onboard.interface import Array
from gaitway_tasks.robots import Robot
from gaitway_tasks.robots.mjcf import ModelError, apply_parameters, strip_visuals
from gaitway_tasks.robots.parameters import RobotParameters
from numpy.typing import NDArray

from ..mujoco.alignment import BaseFrame, align_base
from ..mujoco.model import GRAVITY, compile_robot, foot_bodies, load_robot, set_world
from ..mujoco.stage import set_stage

STAND, IMU = "stand", "twin_imu"
CLEARANCE = 0.3  # [m] between the floor and the feet of a hung robot
LYING_MARGIN = 0.05  # [rad] to the end of a joint's range when the legs are folded
MAX_FOLD = 3.0


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What no robot knows of itself. Joints in the order of the twin's ``joint_names``, J; feet as the robot's, F."""

    time: float
    """[s]"""
    base_pos: Array
    """In the world [m], (3,)."""
    base_quat_wxyz: Array
    """(4,)"""
    base_lin_vel: Array
    """Of the base's origin, in the base frame [m/s], (3,)."""
    base_ang_vel: Array
    """In the base frame [rad/s], (3,)."""
    joint_pos: Array
    """[rad], (J,)"""
    joint_vel: Array
    """[rad/s], (J,)"""
    joint_torque: Array
    """Of the drives, before friction [N m], (J,)."""
    foot_force: Array
    """Of the level ground, along the vertical [N], (F,)."""
    foot_contact: NDArray[np.bool_]
    """Whether each foot touches the ground, (F,)."""

    @property
    def tilt(self) -> float:
        """Angle between the base's z axis and the vertical [rad]."""
        _, x, y, _ = self.base_quat_wxyz
        return float(np.arccos(np.clip(1.0 - 2.0 * (x * x + y * y), -1.0, 1.0)))


class Body:
    """One MuJoCo simulation; joint arrays in the order of ``joint_names``.

    The drives' law is ``torque = ctrl - kp q - kd qd`` within limits, all set from outside before each step. What
    joints ``joint_names`` leaves out of the robot's own is held still.
    """

    def __init__(
        self,
        robot: Robot,
        joint_names: Sequence[str],
        *,
        model: Path | None = None,
        timestep: float = 0.002,
        parameters: RobotParameters | None = None,
        visual: bool = False,
    ):
        """``model`` is another MJCF of the same robot, ``timestep`` [s] that of the physics."""
        self.robot, self.joint_names = robot, tuple(joint_names)
        path = model or robot.mjcf
        spec, base = load_robot(path, robot.joint_names)
        set_world(spec)
        spec.option.timestep = timestep
        for name in set(robot.joint_names) - set(joint_names):
            spec.delete(spec.joint(name))
        if visual:
            set_stage(spec)
        elif all(body.explicitinertial for body in spec.bodies if body.name != "world" and len(body.geoms)):
            strip_visuals(spec)
        if not any(g.contype or g.conaffinity for b in spec.bodies if b.name != "world" for g in b.geoms):
            raise ModelError(f"{path}: no geom of the robot can collide (contype and conaffinity are 0)")
        self.foot_names = tuple(foot_bodies(spec, self.joint_names, robot.foot_names))
        _add_drives(spec, self.joint_names)
        _add_stand(spec, base)
        self._frame = align_base(compile_robot(spec, path), base, path, robot.mjcf, robot.base_name, self.joint_names)
        _add_sensors(spec, base, self._frame, self.foot_names)
        self.model = m = compile_robot(spec, path)
        self._frame_quat = self._frame.quat_wxyz
        if parameters is not None:
            apply_parameters(m, parameters, base)
        self.data = mujoco.MjData(m)
        joints = [m.joint(name).id for name in self.joint_names]
        self.qpos, self.dof = m.jnt_qposadr[joints], m.jnt_dofadr[joints]
        self.default_pos = _in_order(robot, self.joint_names, robot.default_joint_pos)
        self.limits = _in_order(robot, self.joint_names, robot.joint_limits)
        self._base = m.body(base).id
        root = int(m.body_jntadr[self._base])
        self.base_qpos, self.base_dof = int(m.jnt_qposadr[root]), int(m.jnt_dofadr[root])
        self._stand = m.equality(STAND).id
        self._constant, (self._low, self._high) = self.data.ctrl, m.actuator_forcerange.T
        self._stiffness, self._damping = m.actuator_biasprm[:, 1], m.actuator_biasprm[:, 2]
        turn, spin, imu = self.base_qpos + 3, self.base_dof + 3, m.sensor(IMU).adr[0]
        self._base_quat, self._base_spin = self.data.qpos[turn : turn + 4], self.data.qvel[spin : spin + 3]
        self._specific_force, self._aligned = self.data.sensordata[imu : imu + 3], self._frame.is_identity
        self._feet = np.array([m.sensor(f"foot/{name}").adr[0] for name in self.foot_names]) + 2  # along z
        self.place(self.default_pos, hung=False)

    def place(self, joint_pos: Array, *, hung: bool) -> None:
        """Start anew at rest and level, with joints at ``joint_pos`` [rad]: on the ground, or on the stand."""
        m, d = self.model, self.data
        mujoco.mj_resetData(m, d)
        d.qpos[self.qpos] = joint_pos
        base = self.base_qpos
        mujoco.mju_negQuat(d.qpos[base + 3 : base + 7], self._frame_quat)
        d.qpos[base : base + 3] = [0.0, 0.0, self._height_above_ground() + CLEARANCE * hung]
        self.hung = hung
        mujoco.mj_forward(m, d)
        self._look()

    def put(self, qpos: Array, qvel: Array, *, hung: bool) -> None:
        """Start anew in a state as MuJoCo has it, (nq,) and (nv,); ``hung`` fixes the base there."""
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:], self.data.qvel[:] = qpos, qvel
        self.hung = hung
        mujoco.mj_forward(self.model, self.data)
        self._look()

    @property
    def hung(self) -> bool:
        """Whether the base is fixed to a stand."""
        return bool(self.data.eq_active[self._stand])

    @hung.setter
    def hung(self, value: bool) -> None:
        self.model.eq_data[self._stand, 3:10] = self.data.qpos[self.base_qpos : self.base_qpos + 7]
        self.data.eq_active[self._stand] = value

    def folded(self) -> Array:
        """Joint positions of lying: the default pose's bends, carried on until a joint is near the end of its range."""
        with np.errstate(divide="ignore"):
            low, high = (self.limits[:, 0] + LYING_MARGIN), (self.limits[:, 1] - LYING_MARGIN)
            room = np.where(self.default_pos < 0.0, low, high) / self.default_pos
        room = room[np.isfinite(room) & (room > 0.0)]
        return min(MAX_FOLD, float(room.min(initial=MAX_FOLD))) * self.default_pos

    def _height_above_ground(self) -> float:
        """Height of the base's origin [m] at which the robot as it is posed just touches the ground."""
        m, d = self.model, self.data
        ground = m.geom("ground").id
        robot = np.flatnonzero((m.geom_bodyid > 0) & ((m.geom_contype > 0) | (m.geom_conaffinity > 0)))
        d.qpos[self.base_qpos + 2] = 2.0
        mujoco.mj_kinematics(m, d)
        nearest = min(float(mujoco.mj_geomDistance(m, d, ground, int(geom), 10.0, None)) for geom in robot)
        return 2.0 - nearest

    def set_drives(self, constant: Array, stiffness: Array, damping: Array, low: Array, high: Array) -> None:
        """Torque = clip(constant - stiffness q - damping qd, low, high) from now on [N m], (J,) each."""
        self._constant[:] = constant
        np.negative(stiffness, out=self._stiffness)
        np.negative(damping, out=self._damping)
        self._low[:], self._high[:] = low, high

    def step(self) -> None:
        mujoco.mj_step(self.model, self.data)
        self._look()

    def _look(self) -> None:
        """Joint states are looked up once in a step, and every look is a new array."""
        self.joint_pos: Array = self.data.qpos[self.qpos]
        """[rad], (J,); not to be written to, as what follows"""
        self.joint_vel: Array = self.data.qvel[self.dof]
        """[rad/s], (J,)"""
        self.joint_torque: Array = self.data.actuator_force.copy()
        """What the drives exerted in the last step [N m], (J,)."""

    def push(self, velocity: Sequence[float]) -> None:
        """Add to the base's velocity in the world [m/s], (3,)."""
        self.data.qvel[self.base_dof : self.base_dof + 3] += velocity

    def tip(self, share: float) -> None:
        """Turn the base about the world's x axis from now on, with a torque of weight times height times ``share``."""
        weight = self.model.body_subtreemass[self._base] * GRAVITY
        self.data.xfrc_applied[self._base, 3] = share * weight * self.data.qpos[self.base_qpos + 2]

    def imu(self) -> tuple[Array, Array, Array]:
        """Orientation (w, x, y, z), angular velocity [rad/s] and specific force [m/s^2] in the base frame.

        Orientation and angular velocity are those of now; the specific force is the one that the last step had.
        """
        quat, gyro = self._base_quat.copy(), self._base_spin.copy()
        if not self._aligned:
            mujoco.mju_mulQuat(quat, self._base_quat, self._frame_quat)
            gyro = self._frame.rotation @ gyro
        return quat, gyro, self._specific_force.copy()

    def foot_force(self) -> Array:
        """How hard each foot was pressed on the level ground in the last step [N], (F,)."""
        return np.abs(self.data.sensordata[self._feet])

    def truth(self, time: float) -> Truth:
        """The state of now, stamped ``time`` [s]; forces are the last step's."""
        base, dof, turn = self.base_qpos, self.base_dof, np.zeros(9)
        mujoco.mju_quat2Mat(turn, self._base_quat)
        rotation = turn.reshape(3, 3)
        position, linear = self.data.qpos[base : base + 3].copy(), rotation.T @ self.data.qvel[dof : dof + 3]
        if not self._aligned:
            position += rotation @ self._frame.origin
            linear = self._frame.rotation @ (linear + np.cross(self._base_spin, self._frame.origin))
        quat, gyro, _ = self.imu()
        force = self.foot_force()
        return Truth(
            time=time,
            base_pos=position,
            base_quat_wxyz=quat,
            base_lin_vel=linear,
            base_ang_vel=gyro,
            joint_pos=self.joint_pos,
            joint_vel=self.joint_vel,
            joint_torque=self.joint_torque,
            foot_force=force,
            foot_contact=force > 0.0,
        )


def _in_order(robot: Robot, joint_names: Sequence[str], values: Sequence[object]) -> Array:
    """A property of the robot's joints, in the order of ``joint_names``."""
    by_name = dict(zip(robot.joint_names, values, strict=True))
    return np.array([by_name[name] for name in joint_names], dtype=float)


def _add_drives(spec: Any, joint_names: Sequence[str]) -> None:
    """One actuator for each joint whose constant, gains and limits are all changed at run time."""
    for name in joint_names:
        actuator = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.gear = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        actuator.ctrllimited = actuator.actlimited = actuator.group = 0
        actuator.gaintype, actuator.biastype = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_AFFINE
        actuator.gainprm[0] = 1.0
        actuator.forcelimited, actuator.forcerange = 1, [-1.0, 1.0]


def _add_stand(spec: Any, base: str) -> None:
    """What a robot hangs on: a weld so stiff that 200 rad/s^2 turn the base by less than a microradian."""
    spec.add_equality(
        name=STAND,
        type=mujoco.mjtEq.mjEQ_WELD,
        name1="world",
        name2=base,
        objtype=mujoco.mjtObj.mjOBJ_BODY,
        solref=[2.0 * spec.option.timestep, 1.0],
        solimp=[0.9999, 0.9999, 0.001, 0.5, 2.0],
        data=[*10 * [0.0], 1.0, 0.0],  # anchor at the base's origin, and torques of full weight
        active=False,
    )


def _add_sensors(spec: Any, base: str, frame: BaseFrame, feet: Sequence[str]) -> None:
    spec.body(base).add_site(name=IMU, pos=frame.origin, quat=frame.quat_wxyz)
    spec.add_sensor(name=IMU, type=mujoco.mjtSensor.mjSENS_ACCELEROMETER, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=IMU)
    force, netforce = 1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE), 3
    for name in feet:
        spec.add_sensor(
            name=f"foot/{name}",
            type=mujoco.mjtSensor.mjSENS_CONTACT,
            objtype=mujoco.mjtObj.mjOBJ_XBODY,
            objname=name,
            reftype=mujoco.mjtObj.mjOBJ_BODY,
            refname="world",
            intprm=[force, netforce, 1],
        )
