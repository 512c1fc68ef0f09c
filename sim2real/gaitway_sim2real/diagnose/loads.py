"""Do the recorded torques move the bundle's robot as it moved? Inverse dynamics that need no position or velocity.

In the base frame, the accelerometer's specific force stands for the acceleration of the base and gravity together, and
the velocity of the base drops out. So mass, inertia and motion give the torques that joints must have had, and the
force and moment on the base, but for the forces of the ground. The feet that may touch it are projected out: of a robot
on four point feet six equations are left, and three more for each foot that swings.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path

import mujoco
import numpy as np
from gaitway_onboard.interface import Array
from gaitway_tasks.robots import ROBOTS

from ..mujoco.body import Body
from ..replay.motion import foot_geoms
from .recorded import Recorded, down, smoothed

SMOOTH = 0.03  # [s], length of the window over which both sides are averaged
SWING, UNLOADED = 0.025, 25.0  # [m] above the lowest foot, and force by its joints [N], of a foot that touches nothing
LOADED = 25.0  # [N] from which friction counts
SLIDES = 0.15  # [m/s] between two loaded feet
SAMPLES = 700
SCALE_FORCE, SCALE_MOMENT, SCALE_TORQUE = 8.0, 1.5, 0.4  # [N], [N m], [N m]
STILL = 0.15  # [rad/s] below which dry friction is not at its full size
NUDGE = 0.01  # [rad], of differences


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """S moments, everything smoothed alike."""

    pos: Array
    vel: Array
    acc: Array
    torque: Array
    gyro: Array
    turn: Array  # [rad/s^2]
    force: Array
    up: Array
    dry: Array  # direction of motion of each joint, within -1 and 1


class Loads:
    """Residuals of the inverse dynamics, and how each parameter changes them."""

    def __init__(self, record: Recorded, bundle: Path):
        self.record = record
        self.body = Body(ROBOTS[record.contract.robot], record.flight.joint_names, model=bundle / "robot.xml")
        self.model = self.body.model
        self.model.opt.gravity[:] = 0.0  # the accelerometer has it
        self.joints, self.base = self.body.plant.joint_dof, self.body.plant.base_dof
        self.geoms = foot_geoms(self.body)
        length = max(3, round(SMOOTH / record.period) | 1)
        rows = np.flatnonzero(np.convolve(~record.usable, np.ones(2 * length + 1), mode="same") < 0.5)
        self.rows = rows = rows[np.unique(np.linspace(0, len(rows) - 1, SAMPLES).astype(int))] if len(rows) else rows

        def rate(values: Array) -> Array:
            return np.diff(values, axis=0, prepend=values[:1]) / record.period

        def take(values: Array) -> Array:
            return smoothed(values, length)[rows]

        assert record.force is not None
        self.samples = Samples(
            pos=take(record.pos), vel=take(record.vel), acc=take(rate(record.vel)), torque=take(record.torque),
            gyro=take(record.gyro), turn=take(rate(record.gyro)), force=take(record.force), up=-take(down(record)),
            dry=take(np.clip(smoothed(record.vel, 5) / STILL, -1.0, 1.0)),
        )  # fmt: skip
        self.scale = np.full(self.model.nv, SCALE_TORQUE)
        self.scale[self.base : self.base + 3] = SCALE_FORCE
        self.scale[self.base + 3 : self.base + 6] = SCALE_MOMENT
        self.mass = float(self.model.body_subtreemass[self.body.plant.base_body])
        self.inertia = float(np.median(self.model.dof_M0[self.joints]))
        needed, feet, self.foot_speed, points = self._needed(self.samples, self.model)
        self.swing = self._swinging(self.samples, needed, feet, points)
        self.residual, self.project, self.force = self._project(needed, feet, self.swing)

    def evaluate(self, at: Samples, model: mujoco.MjModel | None = None) -> Array:
        """What is missing of the torques, scaled, without what feet may give, (S, nv)."""
        needed, feet, _, _ = self._needed(at, model or self.model)
        return self._project(needed, feet, self.swing)[0]

    def anew(self, at: Samples) -> Array:
        """The same, with the feet that swing by these samples."""
        needed, feet, _, points = self._needed(at, self.model)
        return self._project(needed, feet, self._swinging(at, needed, feet, points))[0]

    def _swinging(self, at: Samples, needed: Array, feet: Array, points: Array) -> np.ndarray:
        """Feet that touch nothing, by their height and by the torques of their joints, (S, F)."""
        height = (points * at.up[:, None]).sum(-1)
        legs = feet[..., self.joints]
        normal = legs @ legs.swapaxes(1, 2) + 1e-6 * np.eye(legs.shape[1])
        force = np.linalg.solve(normal, legs @ needed[:, self.joints, None])[..., 0].reshape(points.shape)
        high = height - height.min(1, keepdims=True) > SWING
        result: np.ndarray = high & (np.abs((force * at.up[:, None]).sum(-1)) < UNLOADED)
        return result

    def _project(self, needed: Array, feet: Array, swing: np.ndarray) -> tuple[Array, Array, Array]:
        """Residual (S, nv), projectors (S, nv, nv) and forces at the feet [N], (S, F, 3)."""
        touching = np.where(np.repeat(swing, 3, axis=1)[..., None], 0.0, feet) / self.scale
        normal = touching @ touching.swapaxes(1, 2) + 1e-6 * np.eye(feet.shape[1])
        solved = np.linalg.solve(normal, touching)  # (S, 3 F, nv)
        project = np.eye(self.model.nv) - touching.swapaxes(1, 2) @ solved
        force = np.einsum("scv,sv->sc", solved, needed / self.scale)
        return np.einsum("sij,sj->si", project, needed / self.scale), project, force.reshape(len(force), -1, 3)

    def _needed(self, at: Samples, model: mujoco.MjModel) -> tuple[Array, Array, Array, Array]:
        """Missing torques (S, nv); of the feet Jacobians (S, 3 F, nv), velocities less the base's, and places."""
        data, plant = mujoco.MjData(model), self.body.plant
        base, joints, count = self.base, self.joints, len(self.geoms)
        needed, feet = np.zeros((len(at.pos), model.nv)), np.zeros((len(at.pos), 3 * count, model.nv))
        speed, points = np.zeros((2, len(at.pos), count, 3))
        for k in range(len(at.pos)):
            data.qpos[plant.base_qpos : plant.base_qpos + 7] = 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0
            data.qpos[plant.joint_qpos], data.qvel[joints], data.qacc[joints] = at.pos[k], at.vel[k], at.acc[k]
            data.qvel[base : base + 3], data.qvel[base + 3 : base + 6] = 0.0, at.gyro[k]
            data.qacc[base : base + 3], data.qacc[base + 3 : base + 6] = at.force[k], at.turn[k]
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_comVel(model, data)
            mujoco.mj_rne(model, data, 1, needed[k])
            for foot, geom in enumerate(self.geoms):
                point = data.geom_xpos[geom] - model.geom_size[geom, 0] * at.up[k]
                rows = feet[k, 3 * foot : 3 * foot + 3]
                mujoco.mj_jac(model, data, rows, None, point, int(model.geom_bodyid[geom]))
                speed[k, foot], points[k, foot] = rows @ data.qvel, point
        needed[:, joints] += model.dof_armature[joints] * at.acc + model.dof_damping[joints] * at.vel
        needed[:, joints] += model.dof_frictionloss[joints] * at.dry - at.torque
        return needed, feet, speed, points

    def carried(self) -> float:
        """Share of the weight that the feet carry, median over the samples."""
        up = np.einsum("sfc,sc->s", self.force, self.samples.up)
        weight = self.mass * np.linalg.norm(self.samples.force, axis=1)
        return float(np.median(up / np.maximum(weight, 1e-9)))

    def sliding(self) -> tuple[float, float]:
        """Share of the pairs of loaded feet that slide at the limit of friction, and that limit."""
        up = self.samples.up[:, None]
        normal = (self.force * up).sum(-1)
        ratio = np.linalg.norm(self.force - normal[..., None] * up, axis=-1) / np.maximum(normal, 1.0)
        flat = self.foot_speed - (self.foot_speed * up).sum(-1, keepdims=True) * up
        first, second = np.triu_indices(normal.shape[1], 1)
        both = (normal[:, first] > LOADED) & (normal[:, second] > LOADED)
        if not both.any():
            return 0.0, np.inf
        apart = np.linalg.norm(flat[:, first] - flat[:, second], axis=-1)[both]
        larger = np.maximum(ratio[:, first], ratio[:, second])[both]
        limit = float(np.quantile(ratio[normal > LOADED], 0.97))
        return float(((apart > SLIDES) & (larger > 0.85 * limit)).mean()), limit

    def columns(self) -> dict[str, Array]:
        """Change of the residual with each parameter, (S, nv), by name."""
        at, joints = self.samples, self.joints
        found: dict[str, Array] = {}

        def own(values: Array, which: slice | int = slice(None)) -> Array:
            full = np.zeros_like(self.residual)
            full[:, joints[which]] = values[:, which] / self.scale[joints[which]]
            return np.einsum("sij,sj->si", self.project, full)

        found["strength"], found["armature"] = own(-at.torque), own(at.acc)
        found["dry"], found["viscous"] = own(at.dry), own(at.vel)
        for joint, name in enumerate(self.record.flight.joint_names):
            found[f"strength/{name}"] = own(-at.torque, joint)
            found[f"dry/{name}"] = own(at.dry, joint)
            nudged = replace(at, pos=at.pos - NUDGE * np.eye(len(joints))[joint])
            found[f"encoder/{name}"] = (self.evaluate(nudged) - self.residual) / NUDGE
        body = self.body.plant.base_body
        for name, change in {"mass": "mass", "com/x": 0, "com/y": 1, "com/z": 2}.items():
            model = copy.copy(self.model)
            if change == "mass":
                model.body_mass[body] += 1.0
                factor = 1.0
            else:
                factor = NUDGE
                model.body_ipos[body, change] += factor
            mujoco.mj_setConst(model, mujoco.MjData(model))
            found[name] = (self.evaluate(at, model) - self.residual) / factor
        for axis, name in enumerate(("mount/roll", "mount/pitch", "mount/yaw")):
            turned = {n: turn(getattr(at, n), axis, NUDGE) for n in ("gyro", "turn", "force", "up")}
            found[name] = (self.evaluate(replace(at, **turned)) - self.residual) / NUDGE
        return found


def turn(vectors: Array, axis: int, angle: float) -> Array:
    """Vectors (N, 3) turned by ``angle`` [rad] about an axis of the base."""
    c, s, (i, j) = np.cos(angle), np.sin(angle), ((1, 2), (2, 0), (0, 1))[axis]
    result = vectors.copy()
    result[:, i], result[:, j] = c * vectors[:, i] - s * vectors[:, j], s * vectors[:, i] + c * vectors[:, j]
    return result
