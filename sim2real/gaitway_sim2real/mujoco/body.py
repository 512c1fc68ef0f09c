"""One simulated robot: its MJCF on a floor, on its own feet or hung up, under drives whose law is given every step.

The digital twin and replay move it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from gaitway_files.errors import UserError
from gaitway_onboard.interface import Array
from gaitway_onboard.rotation import tilt_of
from gaitway_tasks.ground import LEVEL, Ground
from gaitway_tasks.robots import Robot
from gaitway_tasks.robots.mjcf import AffineDrives, apply_parameters, ground_geoms, set_affine_drives
from gaitway_tasks.robots.parameters import RobotParameters
from numpy.typing import NDArray

from .alignment import BaseFrame, align_base
from .feet import foot_bodies
from .model import (
    GRAVITY,
    RobotModel,
    add_contact_sensor,
    addresses,
    check_feet,
    compile_robot,
    prepare_robot,
)

STAND, IMU = "stand", "body_imu"
TALLEST = 3.0  # [m] from the ground to a base whose robot touches it
CLEARANCE = 0.3  # [m] between the floor and the feet of a hung robot
LYING_MARGIN = 0.05  # [rad] to the end of a joint's range when the legs are folded
MAX_FOLD = 3.0


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Ground truth that no robot measures. Joints in the order of the body's ``joint_names``, J; feet as the robot's,
    F."""

    time: float
    """[s]"""
    base_pos: Array
    """Position in the world [m], (3,)."""
    height: float
    """Height of the base above the ground that carries it [m]."""
    base_quat_wxyz: Array
    """(4,)"""
    base_lin_vel: Array
    """Velocity of the base's origin, in the base frame [m/s], (3,)."""
    base_ang_vel: Array
    """Angular velocity in the base frame [rad/s], (3,)."""
    joint_pos: Array
    """[rad], (J,)"""
    joint_vel: Array
    """[rad/s], (J,)"""
    joint_torque: Array
    """Torques of the drives, before friction [N m], (J,)."""
    foot_force: Array
    """Forces of the ground, along the vertical [N], (F,)."""
    foot_contact: NDArray[np.bool_]
    """Mask of the feet that touch the ground, (F,)."""

    @property
    def tilt(self) -> float:
        """Angle between the base's z axis and the vertical [rad]."""
        return float(tilt_of(self.base_quat_wxyz))


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
        ground: Ground = LEVEL,
    ):
        """``model`` is another MJCF of the same robot, ``timestep`` [s] that of the physics."""
        self.robot, self.joint_names, self.ground = robot, tuple(joint_names), ground
        path = model or robot.mjcf
        fixed = robot.fixed_base
        spec, base = prepare_robot(
            path, robot.joint_names, timestep=timestep, ground=ground, visual=visual, fixed_base=fixed
        )
        for name in set(robot.joint_names) - set(joint_names):
            spec.delete(spec.joint(name))
        set_affine_drives(spec, self.joint_names)
        self.foot_names: tuple[str, ...] = ()
        if not fixed:
            check_feet(spec, path)
            self.foot_names = tuple(foot_bodies(spec, self.joint_names, robot.foot_names))
            _add_stand(spec, base)
        frame = align_base(compile_robot(spec, path), base, path, robot.mjcf, robot.base_name, self.joint_names)
        _add_sensors(spec, base, frame, self.foot_names)
        self.model = m = compile_robot(spec, path)
        if parameters is not None:
            apply_parameters(m, parameters, base)
        self.plant = plant = RobotModel(
            **addresses(m, base, self.joint_names),
            frame=frame,
            start_height=robot.init_height,
            foot_names=self.foot_names,
        )
        """The model, and where base and joints are in it."""
        self.data = mujoco.MjData(m)
        self.default_pos = _in_order(robot, self.joint_names, robot.default_joint_pos)
        self.limits = _in_order(robot, self.joint_names, robot.joint_limits)
        self.set_drives = AffineDrives(m, self.data).write
        """Takes constant, stiffness, damping, lowest and highest torque of the law, (J,) each."""
        self._stand = None if fixed else m.equality(STAND).id
        base_qpos, base_dof, imu = plant.base_qpos, plant.base_dof, m.sensor(IMU).adr[0]
        pose, twist = self.data.qpos[base_qpos : base_qpos + 7], self.data.qvel[base_dof : base_dof + 6]
        if plant.fixed_pose is not None:
            pose, twist = plant.fixed_pose.copy(), np.zeros(6)
        self._base_pos, self._base_quat = np.split(pose, [3])
        self._base_vel, self._base_spin = np.split(twist, [3])
        self._specific_force = self.data.sensordata[imu : imu + 3]
        feet = [m.sensor(f"foot/{name}").adr[0] for name in self.foot_names]
        self._feet = np.array(feet, dtype=int) + 2  # along z
        self.place(self.default_pos, hung=False)

    def place(self, joint_pos: Array, *, hung: bool) -> None:
        """Start anew at rest at the origin of the ground, square on it or on the stand.

        ``joint_pos`` [rad] is where the joints are.
        """
        m, d = self.model, self.data
        mujoco.mj_resetData(m, d)
        d.qpos[self.plant.joint_qpos] = joint_pos
        if self._stand is not None:
            self._base_pos[:] = self.ground.origin(np.zeros(1))[0]
            upright = np.array([1.0, 0.0, 0.0, 0.0])
            self._base_quat[:] = self.plant.frame.model_orientation(
                upright if hung else self.ground.tilt(self._base_pos[:2])
            )
            self._base_pos[2] = self._touching() + CLEARANCE * hung
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
        """True if the base is fixed to a stand, or to the world."""
        return self._stand is None or bool(self.data.eq_active[self._stand])

    @hung.setter
    def hung(self, value: bool) -> None:
        if self._stand is None:
            if not value:
                raise UserError(f"the base of {self.robot.name} is fixed: nothing can let it go")
            return
        self.model.eq_data[self._stand, 3:10] = [*self._base_pos, *self._base_quat]
        self.data.eq_active[self._stand] = value

    def let_down(self) -> None:
        """Take it off the stand at rest as it is posed, its feet on the ground."""
        if self._stand is None:
            return
        self._base_pos[2] = self._touching()
        self.data.qvel[self.plant.base_dof : self.plant.base_dof + 6] = 0.0
        self.hung = False
        mujoco.mj_forward(self.model, self.data)
        self._look()

    def folded(self) -> Array:
        """Joint positions of lying: the default pose's bends, carried on until a joint is near the end of its range."""
        with np.errstate(divide="ignore"):
            low, high = (self.limits[:, 0] + LYING_MARGIN), (self.limits[:, 1] - LYING_MARGIN)
            room = np.where(self.default_pos < 0.0, low, high) / self.default_pos
        room = room[np.isfinite(room) & (room > 0.0)]
        return min(MAX_FOLD, float(room.min(initial=MAX_FOLD))) * self.default_pos

    def _touching(self) -> float:
        """z of the base's origin [m] at which the robot as it is posed, where it is, just touches the ground."""
        low = float(self.ground.height(self._base_pos[:2]))
        high, floor = low + TALLEST, set(ground_geoms(self.model).tolist())
        for _ in range(40):
            self._base_pos[2] = middle = (low + high) / 2
            mujoco.mj_fwdPosition(self.model, self.data)
            touches = any(not floor.isdisjoint(pair) for pair in self.data.contact.geom.tolist())
            low, high = (middle, high) if touches else (low, middle)
        return high

    def step(self) -> None:
        mujoco.mj_step(self.model, self.data)
        self._look()

    def _look(self) -> None:
        """Joint states are looked up once in a step, and every look is a new array."""
        self.joint_pos: Array = self.data.qpos[self.plant.joint_qpos]
        """[rad], (J,); not to be written to, as what follows"""
        self.joint_vel: Array = self.data.qvel[self.plant.joint_dof]
        """[rad/s], (J,)"""
        self.joint_torque: Array = self.data.actuator_force.copy()
        """What the drives exerted in the last step [N m], (J,)."""

    def push(self, velocity: Sequence[float]) -> None:
        """Add to the base's velocity in the world [m/s], (3,); a fixed base has none."""
        self._base_vel += velocity

    def drop(self) -> None:
        """Take the ground away, for good."""
        for geom in ground_geoms(self.model):
            self.model.geom_contype[geom] = self.model.geom_conaffinity[geom] = 0

    def tip(self, share: float) -> None:
        """Turn the base about the world's x axis from now on, with a torque of weight times height times ``share``."""
        weight = self.model.body_subtreemass[self.plant.base_body] * GRAVITY
        self.data.xfrc_applied[self.plant.base_body, 3] = share * weight * self._base_pos[2]

    def imu(self) -> tuple[Array, Array, Array]:
        """Orientation (w, x, y, z), angular velocity [rad/s] and specific force [m/s^2] in the base frame.

        Orientation and angular velocity are those of now; the specific force is the one that the last step had.
        """
        frame = self.plant.frame
        return (
            frame.orientation(self._base_quat.copy()),
            frame.ang_vel(self._base_spin.copy()),
            self._specific_force.copy(),
        )

    def foot_force(self) -> Array:
        """Force with which each foot was pressed on the ground in the last step [N], (F,)."""
        return np.abs(self.data.sensordata[self._feet])

    def truth(self, time: float) -> Truth:
        """The state of now, stamped ``time`` [s]; forces are the last step's."""
        frame = self.plant.frame
        pos = frame.position(self._base_pos.copy(), self._base_quat)
        quat, gyro, _ = self.imu()
        force = self.foot_force()
        return Truth(
            time=time,
            base_pos=pos,
            height=float(self.ground.base_height(pos)),
            base_quat_wxyz=quat,
            base_lin_vel=frame.lin_vel(self._base_quat, self._base_vel, self._base_spin),
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


def _add_stand(spec: Any, base: str) -> None:
    """Add the robot's stand: a weld so stiff that 200 rad/s^2 turn the base by less than a microradian."""
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
    force = (mujoco.mjtConDataField.mjCONDATA_FORCE,)
    for name in feet:
        add_contact_sensor(spec, f"foot/{name}", name, force, subtree=True, net=True)
