"""A robot on a stand in batched MuJoCo: every window of a flight under one set of parameters at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import mujoco
import numpy as np
from gaitway_onboard.interface import Array
from gaitway_tasks.robots import ImplicitPD, Robot
from gaitway_tasks.robots.mjcf import DriveParameters, set_actuators
from mujoco.batch import Batch

from ..mujoco.model import compile_robot, prepare_robot
from .windows import Windows

KINDS = ("stiffness_scale", "damping_scale", "strength", "armature", "friction", "viscous")
"""The fields of :class:`gaitway_tasks.robots.parameters.JointParameters`."""


@dataclass(frozen=True, kw_only=True)
class Values:
    """One set of parameters; arrays (J,)."""

    joints: Mapping[str, Array]
    """Values of the joints, by :data:`KINDS`."""
    delay: float = 0.0
    """[s]"""
    velocity_lag: float = 0.0
    """Age of reported velocities [s]."""
    torque_lag: float = 0.0
    """Age of reported torques [s]."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Prediction of every state of every window, (W, T, J) each; the units of :class:`Windows`."""

    pos: Array
    vel: Array
    torque: Array
    """Torques that the drives would report."""


class HungModel:
    """The robot with its base fixed, nothing in reach, and drives whose every number can differ.

    Robots do not move in steps, so that steps must not show in what is found. MuJoCo's velocities are read as those
    half a step earlier, targets are averaged around the moment that positions are from, and the inertia that implicit
    damping adds, half a step times the damping, is taken off the armature: that makes a leapfrog integrator with
    damping at midpoint, of second order.
    """

    def __init__(self, robot: Robot, path: Path, dt: float, threads: int = 0):
        """``dt`` is the physics step [s]."""
        self.robot, self.dt, self.threads = robot, dt, threads
        model = self.model = _build(robot, path, dt)
        joints = [model.joint(name) for name in robot.joint_names]
        self._qpos = np.array([joint.qposadr[0] for joint in joints])
        self._dof = np.array([joint.dofadr[0] for joint in joints])
        self.effort_limit = _effort_limits(robot)
        """[N m], (J,)"""
        self.nominal = Values(
            joints={
                **dict.fromkeys(("stiffness_scale", "damping_scale", "strength"), np.ones(len(joints))),
                "armature": _armature(robot, model.dof_armature[self._dof]),
                "friction": model.dof_frictionloss[self._dof].copy(),
                "viscous": model.dof_damping[self._dof].copy(),
            }
        )
        """What the model itself says."""
        tree = model.dof_treeid[self._dof]
        self.trees = tuple(tuple(int(j) for j in np.flatnonzero(tree == number)) for number in np.unique(tree))
        """Joints of each limb: with the base fixed, no limb feels another."""
        self.inertia = self._inertia()
        """That each joint moves in the default pose, armature included [kg m^2], (J,)."""
        self._batches: dict[int, Batch] = {}

    def _inertia(self) -> Array:
        data = mujoco.MjData(self.model)
        data.qpos[self._qpos] = self.robot.default_joint_pos
        mujoco.mj_forward(self.model, data)
        full = np.zeros((self.model.nv, self.model.nv))
        mujoco.mj_fullM(self.model, data, full)
        model_armature = self.model.dof_armature[self._dof]
        result: Array = np.diag(full)[self._dof] - model_armature + self.nominal.joints["armature"]
        return result

    def predict(self, values: Values, windows: Windows, seconds: float | None = None) -> Prediction:
        """Simulate the windows, or the first ``seconds`` of each, from their starts."""
        if seconds is not None and round(seconds / windows.period) + 1 < windows.steps:
            keep = round(seconds / windows.period) + 1
            windows = replace(
                windows,
                pos=windows.pos[:, :keep],
                vel=windows.vel[:, :keep],
                scored=windows.scored[:, :keep],
                torque=None if windows.torque is None else windows.torque[:, :keep],
            )
        batch = self._batch(len(windows))
        self._set(batch, values, windows)
        ctrl = windows.targets(values.delay + self.dt / 2, self.dt)
        found = batch.rollout(ctrl.shape[1], ctrl, int(mujoco.mjtState.mjSTATE_CTRL), record=("qpos", "qvel"))
        every = round(windows.period / self.dt)
        pos = np.concatenate([windows.start_pos[:, None], found["qpos"][:, every - 1 :: every, self._qpos]], 1)
        half = np.concatenate([windows.start_vel[:, None], found["qvel"][..., self._dof]], 1)
        half = np.concatenate([half, 2.0 * half[:, -1:] - half[:, -2:-1]], 1)
        vel = ((half[:, :-1] + half[:, 1:]) / 2)[:, ::every]
        return Prediction(
            pos=pos, vel=_late(vel, values.velocity_lag / windows.period), torque=self._torque(values, windows)
        )

    def _torque(self, values: Values, windows: Windows) -> Array:
        """The law, ``torque_lag`` earlier, of a drive that knows nothing of its strength.

        At the measured states, which are what the drive acts on: a simulated one is off by more than encoders are, and
        a tenth of a milliradian of position looks like a percent of damping.
        """
        lag = values.torque_lag
        target = windows.targets_around(values.delay + lag)
        pos, vel = (_late(each, lag / windows.period) for each in (windows.pos, windows.vel))
        kp = values.joints["stiffness_scale"] * windows.stiffness
        kd = values.joints["damping_scale"] * windows.damping
        return np.clip(kp[:, None] * (target - pos) - kd[:, None] * vel, -self.effort_limit, self.effort_limit)

    def _batch(self, count: int) -> Batch:
        if count not in self._batches:
            self._batches.clear()  # a batch holds the models of all its simulations
            self._batches[count] = Batch(self.model, count, self.threads)
        return self._batches[count]

    def _set(self, batch: Batch, values: Values, windows: Windows) -> None:
        joints, strength = values.joints, values.joints["strength"]
        kp = strength * joints["stiffness_scale"] * windows.stiffness
        kd = strength * joints["damping_scale"] * windows.damping
        DriveParameters(self.model, batch.expand).write(kp, kd, effort_limit=strength * self.effort_limit)
        batch.expand("dof_armature")[:, self._dof] = joints["armature"] - self.dt / 2 * (kd + joints["viscous"])
        batch.expand("dof_frictionloss")[:, self._dof] = joints["friction"]
        batch.expand("dof_damping")[:, self._dof] = joints["viscous"]
        batch.expand("opt.gravity")[:] = windows.gravity
        batch.set_const()
        batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE)
        batch.bind("qpos")[:, self._qpos] = windows.start_pos
        batch.bind("qvel")[:, self._dof] = windows.start_vel


def _build(robot: Robot, path: Path, dt: float) -> mujoco.MjModel:
    spec, base = prepare_robot(path, robot.joint_names, timestep=dt)
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    for joint in list(spec.body(base).joints):
        spec.delete(joint)
    spec.body(base).quat = [1.0, 0.0, 0.0, 0.0]  # gravity turns instead
    unit = ImplicitPD(stiffness=1.0, damping=1.0, effort_limit=1.0)  # all numbers are set before each simulation
    set_actuators(spec, robot.joint_names, [unit] * robot.num_joints)
    return compile_robot(spec, path)


def _effort_limits(robot: Robot) -> Array:
    if robot.hardware is not None:
        return np.array([robot.hardware.effort_limit[name] for name in robot.joint_names])
    return np.array([law.effort_limit for law in robot.joint_actuators])


def _armature(robot: Robot, of_model: Array) -> Array:
    """The actuator law's where it has one."""
    laws = [law.armature for law in robot.joint_actuators]
    return np.array([model if law is None else law for law, model in zip(laws, of_model, strict=True)])


def _late(values: Array, lag: float) -> Array:
    """``values`` (W, K, J) as seen ``lag`` steps later, between steps linearly; the first value before the start."""
    if lag <= 0.0:
        return values
    whole, share = int(lag), lag - int(lag)

    def shifted(by: int) -> Array:
        return np.concatenate([np.repeat(values[:, :1], by, 1), values[:, : values.shape[1] - by]], 1)

    result: Array = (1.0 - share) * shifted(whole) + share * shifted(whole + 1)
    return result
