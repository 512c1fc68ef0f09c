"""Predict each recorded step from the recorded state before it, in MuJoCo, under a hypothesis on the drives."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from gaitway_tasks.robots.mjcf import DriveParameters
from mujoco.batch import Batch

from ..mujoco.delay import target_age
from ..mujoco.plant import build_plant
from .view import View

SAMPLES = 300
CLEAR = 0.002  # [m] above the ground, a leg is in the air: PhysX's feet rest on it to 0.1 mm, often just above
MIN_SWING = 0.06  # share of the numbers that must be of legs in the air, for the others to be left out
MAX_DELAY = 3  # control steps
KEEP = 0.8  # share of the errors that count: contacts that differ between simulators make the rest
PRESSED, HARD = 0.001, 0.999  # [m], and the impedance, with which MuJoCo's contacts hold feet as PhysX's do
MIN_SPREAD = 0.05  # [rad/s], in a control step: joints that move less are at rest


@dataclass(frozen=True, kw_only=True)
class DriveChange:
    """Change of the drives, relative to the contract, that may explain a recording."""

    stiffness: float = 1.0
    """Factor."""
    damping: float = 1.0
    """Factor."""
    effort_limit: float = 1.0
    """Factor."""
    armature: float = 0.0
    """Added to every joint [kg m^2]."""
    delay: int = 0
    """Physics steps by which targets arrive late."""
    source: tuple[int, ...] = ()
    """Joint whose target each joint gets."""
    flipped: tuple[int, ...] = ()
    """Joints that get minus their offset from the default pose."""
    explicit: bool = False
    """Torques are computed once per physics step and held, as by Isaac Lab's explicit actuators. Else MuJoCo integrates
    damping implicitly, which acts like an armature of the physics step times the damping."""
    rigid: bool = False
    """The ground does not give: feet that rest on it neither sink nor creep, as in PhysX."""


@dataclass(eq=False)
class OneStep:
    """A sample of recorded transitions, ready to be predicted. M samples, J joints."""

    view: View
    bundle: Path
    targets: np.ndarray  # (T, N, J)

    def __post_init__(self) -> None:
        view, contract = self.view, self.view.contract
        model = self.bundle / "robot.xml"
        self.plant = build_plant(contract, model, model)
        self._take_armature()
        t, n = np.nonzero(view.continues & (view.age[:-1] >= MAX_DELAY + 1))
        swing = self._swinging()[t, n]
        chosen = np.random.default_rng(0).permutation(len(t))
        chosen = np.sort(chosen[np.argsort(~swing[chosen].any(1), kind="stable")][:SAMPLES])
        self.rows = t, n = t[chosen], n[chosen]
        self.held_out = np.random.default_rng(1).random(len(t)) < 0.4
        self._qpos, self._qvel = self._states(t, n)
        self.inertia = float(np.median(self.plant.model.dof_M0[self.plant.joint_dof]))
        self.next_vel = view.joint_vel[t + 1, n]
        change, swing = self.next_vel - view.joint_vel[t, n], swing[chosen]
        enough = bool(len(t)) and swing.mean() >= MIN_SWING and np.sqrt((change[swing] ** 2).mean()) >= MIN_SPREAD
        self.in_the_air = bool(enough)
        self.swing = swing if enough else np.ones_like(swing)
        counts = np.maximum(self.swing.sum(0), 1)
        self.spread = np.maximum(np.sqrt((change**2 * self.swing).sum(0) / counts), MIN_SPREAD)

    def _take_armature(self) -> None:
        """Set the model's armature to the training's, if the bundle has it; validation uses the model's own."""
        model = self.plant.model
        for dof, value in zip(self.plant.joint_dof, self.view.contract.per_joint("armature"), strict=True):
            if value is not None:
                model.dof_armature[dof] = value
        mujoco.mj_setConst(model, mujoco.MjData(model))

    def __len__(self) -> int:
        return len(self.rows[0])

    @property
    def physics_dt(self) -> float:
        return float(self.plant.model.opt.timestep)

    def _states(self, t: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """qpos and qvel of recorded rows."""
        view, plant = self.view, self.plant
        qpos = np.tile(plant.model.qpos0, (len(t), 1))
        qvel = np.zeros((len(t), plant.model.nv))
        b, v = plant.base_qpos, plant.base_dof
        qpos[:, b : b + 3], qpos[:, b + 3 : b + 7] = view.root_pos[t, n], view.quat[t, n]
        qvel[:, v : v + 3], qvel[:, v + 3 : v + 6] = view.lin_vel_w[t, n], view.ang_vel_b[t, n]
        qpos[:, plant.joint_qpos], qvel[:, plant.joint_dof] = view.joint_pos[t, n], view.joint_vel[t, n]
        return qpos, qvel

    def _swinging(self) -> np.ndarray:
        """Joints whose feet are in the air in a row and in the next, (T - 1, N, J).

        Only they count, if there are enough: simulators agree on drives and inertias far better than on contacts.
        """
        model, plant, (steps, envs) = self.plant.model, self.plant, self.view.first.shape
        bodies = model.dof_bodyid[plant.joint_dof].tolist()
        below = np.array([[_is_above(model, body, foot) for foot in plant.foot_names] for body in bodies])
        touching = np.zeros((steps, envs, len(plant.foot_names)), bool)
        batch = Batch(model, envs, 1)
        sensors = batch.bind("sensordata")  # outputs are copied to what was bound before the call
        for t in range(steps):
            qpos, qvel = self._states(np.full(envs, t), np.arange(envs))
            qpos[:, plant.base_qpos + 2] -= CLEAR
            self._pose(batch, qpos, qvel)
            batch.forward()
            touching[t] = sensors[:, plant.foot_sensor] > 0
        return ~((touching[:-1] | touching[1:]) @ below.T)

    @staticmethod
    def _pose(batch: Batch, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Begin anew in these states."""
        batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE)
        batch.bind("qpos")[:], batch.bind("qvel")[:] = qpos, qvel

    def predict(self, drives: DriveChange, rows: np.ndarray, shift: float = 0.0) -> np.ndarray:
        """Joint velocities [rad/s] one control step after the samples ``rows``, (m, J).

        ``shift`` [rad] is added to every target.
        """
        plant, (t, n) = self.plant, (index[rows] for index in self.rows)
        qpos = self._qpos[rows]  # a copy
        qpos[:, plant.base_qpos + 2] -= PRESSED * drives.rigid
        batch = Batch(self._model(drives), len(qpos), 1)
        self._pose(batch, qpos, self._qvel[rows])
        ctrl = batch.bind("ctrl")
        for step in range(plant.decimation):
            age = target_age(drives.delay, step, plant.decimation)
            ctrl[:] = self._arranged(self.targets[t - age, n], drives) + shift
            batch.step()
        velocity: np.ndarray = batch.bind("qvel")[:, plant.joint_dof].copy()
        return velocity

    def _arranged(self, targets: np.ndarray, drives: DriveChange) -> np.ndarray:
        pose = np.array(self.view.contract.default_joint_pos)
        if drives.source:
            targets = (targets - pose)[:, list(drives.source)] + pose
        if drives.flipped:
            targets = targets.copy()
            joints = list(drives.flipped)
            targets[:, joints] = 2.0 * pose[joints] - targets[:, joints]
        return targets

    def errors(self, drives: DriveChange, *, held_out: bool = False) -> np.ndarray:
        """Prediction minus recording of the velocities of swinging joints, over the spread of their recorded change.

        Of the samples to fit, or of those to judge by. Positions would say more of how a simulator integrates than of
        the drives: within a step of 5 ms, PhysX's are up to 8 % of the change from MuJoCo's under the same torques.
        """
        rows = np.flatnonzero(self.held_out == held_out)
        swing = self.swing[rows]
        return ((self.predict(drives, rows) - self.next_vel[rows]) / self.spread)[swing]

    def _model(self, drives: DriveChange) -> mujoco.MjModel:
        model = copy.copy(self.plant.model)
        if drives.explicit:
            model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
        if drives.rigid:
            model.geom_solimp[:, :2] = HARD
        nominal = DriveParameters(model)
        nominal.write(
            drives.stiffness * nominal.stiffness,
            drives.damping * nominal.damping,
            effort_limit=drives.effort_limit * nominal.effort_limit,
        )
        if drives.armature:
            dofs = self.plant.joint_dof
            model.dof_armature[dofs] = np.maximum(model.dof_armature[dofs] + drives.armature, 0.0)
            mujoco.mj_setConst(model, mujoco.MjData(model))
        return model

    def armature(self) -> np.ndarray:
        """Armature of each joint in the bundle [kg m^2], (J,)."""
        result: np.ndarray = self.plant.model.dof_armature[self.plant.joint_dof]
        return result


def _is_above(model: mujoco.MjModel, body: int, foot: str) -> bool:
    """True if the foot is the body or hangs on it."""
    below = model.body(foot).id
    while below > body:
        below = int(model.body_parentid[below])
    return bool(below == body)


def trimmed(errors: np.ndarray) -> float:
    """Root mean square of the smallest :data:`KEEP` of the errors: contacts are what the rest are about."""
    squares = np.sort(errors.ravel() ** 2)
    return float(np.sqrt(squares[: max(1, round(KEEP * len(squares)))].mean()))
