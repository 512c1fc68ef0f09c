"""Bodies of a robot that follows a motion, and joint angles that put feet where they should be; on our own models."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from gaitway_tasks.robots import Robot, mjcf
from gaitway_tasks.robots.anatomy import FULL, anatomy, small_turn
from numpy.typing import NDArray

from .motion import Array, Motion, MotionError

DAMPING = 1e-4
"""Damping of the least squares, relative to the leg."""
ITERATIONS = 20
REACHED = 1e-4
"""Distance at which a foot is where it should be [m]."""
LARGEST = 0.2
"""Largest change of a joint in an iteration [rad]: straight legs would fold the other way."""
STRETCHED = 0.97
"""Share of its reach to which a leg may be stretched."""
SMOOTHED = 10
"""Frames over which the base is lowered."""
FAR = 0.02
"""Distance beyond which a foot cannot be where it should be [m]."""


@functools.cache
def model_of(path: Path) -> mujoco.MjModel:
    return mjcf.compile_spec(mjcf.load_spec(path), path)


@dataclass(frozen=True)
class Bodies:
    """Poses and twists of B bodies in T frames, in the world, as :class:`gaitway_tasks.world.RobotState` has them."""

    pos: Array  # (T, B, 3) [m]
    quat_wxyz: Array  # (T, B, 4)
    lin_vel: Array  # (T, B, 3) [m/s], of the centres of mass
    ang_vel: Array  # (T, B, 3) [rad/s]


class Skeleton:
    """A robot's model, posed without dynamics."""

    def __init__(self, robot: Robot):
        self.robot, self.model = robot, model_of(robot.mjcf)
        self.data = mujoco.MjData(self.model)
        self.columns = np.array([self.model.joint(name).qposadr[0] for name in robot.joint_names])
        self.dofs = np.array([self.model.joint(name).dofadr[0] for name in robot.joint_names])
        self.base = self.model.body(robot.base_name).id
        joint = self.model.body_jntadr[self.base]
        self.root = int(self.model.jnt_qposadr[joint])
        self.root_dof = int(self.model.jnt_dofadr[joint])

    def pose(self, root_pos: Array, root_quat_wxyz: Array, joint_pos: Array) -> mujoco.MjData:
        """Places of everything; mj_kinematics and mj_comPos of the pose."""
        qpos = self.data.qpos
        qpos[self.root : self.root + 3], qpos[self.root + 3 : self.root + 7] = root_pos, root_quat_wxyz
        qpos[self.columns] = joint_pos
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        return self.data

    def default(self) -> mujoco.MjData:
        """The pose at a reset: the default one, at the robot's height."""
        upright = np.array([1.0, 0.0, 0.0, 0.0])
        return self.pose(np.array([0.0, 0.0, self.robot.init_height]), upright, np.array(self.robot.default_joint_pos))


def reaches(robot: Robot) -> Array:
    """Longest distance from the second joint of each leg to its foot that the joints' limits allow [m], (F,)."""
    skeleton = Skeleton(robot)
    found = []
    for foot, leg in zip(robot.foot_names, anatomy(robot).legs, strict=True):
        hip = skeleton.model.joint(robot.joint_names[leg[min(1, len(leg) - 1)]]).id
        angles, most = np.array(robot.default_joint_pos), 0.0
        for angle in np.linspace(*robot.joint_limits[leg[-1]], 200):
            angles[leg[-1]] = angle
            data = skeleton.pose(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]), angles)
            most = max(most, float(np.linalg.norm(data.xpos[skeleton.model.body(foot).id] - data.xanchor[hip])))
        found.append(most)
    return np.array(found)


def lowered(robot: Robot, root_pos: Array, root_quat_wxyz: Array, feet: Array, stands: NDArray[np.bool_]) -> Array:
    """``root_pos`` (T, 3) with the base as much lower as feet that stand need to be in reach, smoothly over time."""
    skeleton, reach_of = Skeleton(robot), STRETCHED * reaches(robot)
    legs = anatomy(robot).legs
    joints = [skeleton.model.joint(robot.joint_names[leg[min(1, len(leg) - 1)]]).id for leg in legs]
    default, drop = np.array(robot.default_joint_pos), np.zeros(len(root_pos))
    for t in range(len(root_pos)):
        data = skeleton.pose(root_pos[t], root_quat_wxyz[t], default)
        way = data.xanchor[joints] - feet[t]
        above = np.sqrt(np.maximum(reach_of**2 - (way[:, :2] ** 2).sum(1), 0.0))
        drop[t] = max(0.0, float(((way[:, 2] - above) * stands[t]).max()))
    width = min(len(drop), SMOOTHED)
    padded = np.pad(drop, width, mode="edge")
    highest = np.array([padded[t : t + 2 * width + 1].max() for t in range(len(drop))])
    smooth = np.convolve(np.pad(highest, width // 2, mode="edge"), np.ones(width) / width, "same")
    smooth = smooth[width // 2 : width // 2 + len(drop)]
    return root_pos - np.stack((0 * smooth, 0 * smooth, smooth), 1)


def bodies_of(robot: Robot, motion: Motion) -> Bodies:
    """Bodies of ``robot`` in each frame of ``motion``, whose joints are in the robot's order."""
    skeleton = Skeleton(robot)
    ids = [skeleton.model.body(name).id for name in robot.body_names]
    count = len(motion)
    pos, com, quat = np.zeros((count, len(ids), 3)), np.zeros((count, len(ids), 3)), np.zeros((count, len(ids), 4))
    for t in range(count):
        data = skeleton.pose(motion.root_pos[t], motion.root_quat_wxyz[t], motion.joint_pos[t])
        pos[t], com[t], quat[t] = data.xpos[ids], data.xipos[ids], data.xquat[ids]
    lin_vel: Array = np.asarray(np.gradient(com, 1 / motion.fps, axis=0))
    return Bodies(pos, quat, lin_vel, angular_velocity(quat, motion.fps))


def angular_velocity(quat: Array, fps: float) -> Array:
    """Angular velocity in the world [rad/s], (T, ..., 3), of rotations (T, ..., 4), by central differences."""
    before = np.concatenate((quat[:1], quat[:-1]))
    after = np.concatenate((quat[1:], quat[-1:]))
    w, v = before[..., :1], -before[..., 1:]
    turned = np.concatenate(
        (
            after[..., :1] * w - (after[..., 1:] * v).sum(-1, keepdims=True),
            after[..., :1] * v + w * after[..., 1:] + np.cross(after[..., 1:], v),
        ), -1,
    )  # fmt: skip
    turned = np.where(turned[..., :1] < 0, -turned, turned)
    sine = np.linalg.norm(turned[..., 1:], axis=-1, keepdims=True)
    angle = 2 * np.arctan2(sine, turned[..., :1])
    steps = np.full(len(quat), 2.0)
    steps[[0, -1]] = 1.0
    scaled = np.where(sine > 1e-9, angle / np.maximum(sine, 1e-9), 2.0) * turned[..., 1:]
    velocity: Array = scaled * fps / steps.reshape(-1, *[1] * (quat.ndim - 1))
    return velocity


def reach(
    robot: Robot,
    root_pos: Array,
    root_quat_wxyz: Array,
    feet: Array,
    *,
    stands: NDArray[np.bool_] | None = None,
    farthest: float = FAR,
) -> Array:
    """Joint angles [rad], (T, J), that put each foot's body at ``feet`` (T, F, 3) [m], with the base as it is told.

    Feet on four joints or more keep their soles level. Other joints keep the default pose. Raises
    :class:`MotionError` for a foot that stays more than ``farthest`` [m] from its place while it ``stands`` (T, F), or
    ever.
    """
    skeleton = Skeleton(robot)
    model = skeleton.model
    ids = [model.body(name).id for name in robot.foot_names]
    legs = [list(leg) for leg in anatomy(robot).legs]
    limits = np.array(robot.joint_limits)
    level = [skeleton.default().xmat[foot].reshape(3, 3).copy() for foot in ids]
    found = np.zeros((len(feet), robot.num_joints))
    angles = np.array(robot.default_joint_pos)
    for t in range(len(feet)):
        heading = 2 * np.arctan2(root_quat_wxyz[t, 3], root_quat_wxyz[t, 0])
        turn = np.array([[np.cos(heading), -np.sin(heading), 0], [np.sin(heading), np.cos(heading), 0], [0, 0, 1]])
        for _ in range(ITERATIONS):
            data = skeleton.pose(root_pos[t], root_quat_wxyz[t], angles)
            missing = feet[t] - data.xpos[ids]
            if np.abs(missing).max() < REACHED and all(len(leg) < FULL for leg in legs):
                break
            for foot, leg, wanted, sole in zip(ids, legs, missing, level, strict=True):
                size = 6 if len(leg) >= FULL else 3
                jacobian = np.zeros((6, model.nv))
                mujoco.mj_jacBody(model, data, jacobian[:3], jacobian[3:], foot)
                rows = jacobian[:size, skeleton.dofs[leg]]
                error = np.concatenate((wanted, small_turn(data.xmat[foot].reshape(3, 3), turn @ sole)))[:size]
                gram = rows @ rows.T
                damped = gram + DAMPING * np.trace(gram) / size * np.eye(size)
                step = np.clip(rows.T @ np.linalg.solve(damped, error), -LARGEST, LARGEST)
                angles[leg] = np.clip(angles[leg] + step, limits[leg, 0], limits[leg, 1])
        far = np.linalg.norm(feet[t] - skeleton.pose(root_pos[t], root_quat_wxyz[t], angles).xpos[ids], axis=1)
        far = far if stands is None else far * stands[t]
        if far.max() > farthest:
            name = robot.foot_names[int(far.argmax())]
            raise MotionError(
                f"{name} of {robot.name} stays {100 * far.max():.0f} cm from its place in frame {t}: the base is too "
                "high, too far or too tilted for its legs"
            )
        found[t] = angles
    return found
