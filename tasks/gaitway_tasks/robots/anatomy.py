"""Facts of a robot that its model tells: legs, weights, and the joint angles that lift a foot."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from . import mjcf
from .robot import Robot

Array = NDArray[np.float64]

DAMPING = 1e-3
"""Damping of the least squares that lift a foot, relative to the leg: it keeps straight knees from flying."""
LIFTS = 100
"""Steps in which a foot is lifted; each may err by a thousandth of it."""
TRUNK = 0.15
"""Share of the mass above which a joint that is no leg's moves a part of the trunk: a waist and not a shoulder."""
FULL = 4
"""Joints of a leg that keeps its sole level; one with fewer has a point for a foot."""


@dataclass(frozen=True)
class Anatomy:
    mass: float
    """Mass of the whole robot [kg]."""
    carried: Array
    """Share of the mass that each joint moves when the base is held, (J,)."""
    legs: tuple[tuple[int, ...], ...]
    """Joints between the base and each foot, from the base on, for each of the robot's feet."""
    moved: tuple[str, ...]
    """Body that each joint moves, (J,)."""

    @property
    def waists(self) -> list[int]:
        """Joints that move a part of the trunk."""
        return [joint for joint in self._others if self.carried[joint] > TRUNK]

    @property
    def arms(self) -> list[int]:
        """Joints of no leg that move little: arms, necks, tails."""
        return [joint for joint in self._others if self.carried[joint] <= TRUNK]

    @property
    def _others(self) -> list[int]:
        legs = {joint for leg in self.legs for joint in leg}
        return [joint for joint in range(len(self.carried)) if joint not in legs]


def anatomy(robot: Robot) -> Anatomy:
    """Facts of ``robot``'s model; read once."""
    model = _model(robot.mjcf)
    joints = [model.joint(name).id for name in robot.joint_names]
    base = model.body(robot.base_name).id
    legs = []
    for foot in robot.foot_names:
        chain, body = [], model.body(foot).id
        while body not in (0, base):
            chain += [joints.index(j) for j in range(model.njnt) if model.jnt_bodyid[j] == body and j in joints]
            body = int(model.body_parentid[body])
        legs.append(tuple(reversed(chain)))
    mass, moved = float(model.body_subtreemass[0]), [int(model.jnt_bodyid[joint]) for joint in joints]
    return Anatomy(
        mass, model.body_subtreemass[moved] / mass, tuple(legs), tuple(model.body(body).name for body in moved)
    )


def lift(robot: Robot, height: float) -> Array:
    """Joint offsets [rad] from the default pose that lift each foot alone by ``height`` [m], straight up, (F, J).

    The base stands still. Feet on :data:`FULL` joints or more keep their soles level, those on fewer are points.
    """
    model = _model(robot.mjcf)
    data = mujoco.MjData(model)
    places = np.array([model.joint(name).qposadr[0] for name in robot.joint_names])
    columns = np.array([model.joint(name).dofadr[0] for name in robot.joint_names])
    found = np.zeros((len(robot.foot_names), robot.num_joints))
    limits = np.array(robot.joint_limits)
    pose = np.array(robot.default_joint_pos)
    for row, leg in enumerate(anatomy(robot).legs):
        foot, chosen = model.body(robot.foot_names[row]).id, list(leg)
        size = 6 if len(leg) >= FULL else 3
        offset = np.zeros(robot.num_joints)
        for step in range(LIFTS):
            data.qpos[places] = pose + offset
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            if step == 0:
                start, level = data.xpos[foot].copy(), data.xmat[foot].reshape(3, 3).copy()
            jacobian = np.zeros((6, model.nv))
            mujoco.mj_jacBody(model, data, jacobian[:3], jacobian[3:], foot)
            reach = jacobian[:size, columns[chosen]]
            wanted = np.zeros(6)
            wanted[:3] = start + np.array([0.0, 0.0, height * (step + 1) / LIFTS]) - data.xpos[foot]
            wanted[3:] = small_turn(data.xmat[foot].reshape(3, 3), level)
            gram = reach @ reach.T
            damped = gram + DAMPING * np.trace(gram) / size * np.eye(size)
            offset[chosen] += reach.T @ np.linalg.solve(damped, wanted[:size])
            offset = np.clip(pose + offset, limits[:, 0], limits[:, 1]) - pose
        found[row] = offset
    return found


def small_turn(start: Array, end: Array) -> Array:
    """Rotation vector [rad], (3,), that turns ``start`` (3, 3) into ``end`` (3, 3), for small angles."""
    turned = end @ start.T
    return 0.5 * np.array([turned[2, 1] - turned[1, 2], turned[0, 2] - turned[2, 0], turned[1, 0] - turned[0, 1]])


@functools.cache
def _model(path: Path) -> mujoco.MjModel:
    return mjcf.compile_spec(mjcf.load_spec(path), path)
