"""Is a motion one that the robot can do? Joints, floor, speeds and, by inverse dynamics, torques.

Forces on the feet that stand are those that carry the base with the least squares of their sizes; what they cannot
carry is the share of the weight that something else would have to hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
from gaitway_tasks.robots import Robot
from gaitway_tasks.robots.robot import DCMotor

from .kinematics import Skeleton, bodies_of
from .motion import Array, Motion

THROUGH, SKATING = 0.015, 0.1
"""Depth of a foot in the floor [m], and mean speed of feet that stand [m/s], from which a motion is not that of a body.
"""
SUNK = 0.1
"""Depth of a foot in the floor [m] above which a file is not what it is taken for."""
LOW = 0.02
"""Height of a sole up to which a foot stands [m]."""
CARRIED = 0.3
"""Share of the weight from which other parts than feet carry the robot, and the torques are not known."""
USUAL = 0.98
"""Share of the frames in which a torque must be below its limit."""
HELD = 0.6
"""Share of the weight that may be held by nothing, for single frames: flight, and edges of steps."""


@dataclass(frozen=True)
class Finding:
    """One measure of a motion."""

    name: str
    value: float
    limit: float
    unit: str
    where: str = ""
    """Joint or foot, and time."""
    decides: bool = True
    """True if a motion above the limit is one that the robot cannot do."""

    wrong: float = np.inf
    """Value above which no training begins: the file is not what it is taken for."""

    @property
    def ok(self) -> bool:
        return self.value <= self.limit

    @property
    def refused(self) -> bool:
        return self.value > self.wrong


def examine(motion: Motion, robot: Robot) -> list[Finding]:
    """Findings on ``motion``, whose joints are in the robot's order."""
    skeleton, fps = Skeleton(robot), motion.fps
    limits = np.array(robot.joint_limits)
    beyond = np.maximum(motion.joint_pos - limits[:, 1], limits[:, 0] - motion.joint_pos)
    speed = np.abs(np.gradient(motion.joint_pos, 1 / fps, axis=0))
    fastest = np.array([law.velocity_limit if isinstance(law, DCMotor) else np.inf for law in robot.joint_actuators])
    effort = np.array([law.effort_limit or np.inf for law in robot.joint_actuators])
    feet = [robot.body_names.index(name) for name in robot.foot_names]
    places = bodies_of(robot, motion).pos[:, feet]
    soles = places[..., 2] - _sole(robot, skeleton)
    stands = soles < LOW
    slip = np.linalg.norm(np.gradient(places[..., :2], 1 / fps, axis=0), axis=-1) * stands
    torque, held = torques(motion, skeleton, stands)
    names, feet_names = robot.joint_names, robot.foot_names
    known = np.isfinite(fastest)
    findings = [
        _worst("beyond joint limits", beyond, 0.0, "rad", names, fps),
        _worst("joint speed over its limit", speed[:, known] / fastest[known], 1.0, "",
               [n for n, k in zip(names, known, strict=True) if k], fps) if known.any() else None,
        _usual("torque over its limit", np.abs(torque[held < CARRIED]) / effort, names),
        _worst("foot in the floor", -soles, THROUGH, "m", feet_names, fps, wrong=SUNK),
        Finding("mean speed of feet that stand", float(slip.sum() / max(stands.sum(), 1)), SKATING, "m/s",
                decides=False),
        _worst("weight held by nothing", held[:, None], HELD, "", ["base"], fps, decides=False),
        Finding("first frame off the default pose",
                float(np.abs(motion.joint_pos[0] - robot.default_joint_pos).max()), 0.1, "rad", decides=False),
        Finding("last frame off the default pose",
                float(np.abs(motion.joint_pos[-1] - robot.default_joint_pos).max()), 0.1, "rad", decides=False),
    ]  # fmt: skip
    up = 1 - 2 * (motion.root_quat_wxyz[:, 1] ** 2 + motion.root_quat_wxyz[:, 2] ** 2)
    turned = float((up < 0).mean())
    hint = "is the quaternion x, y, z, w?" if turned > 0.5 else ""
    findings.append(Finding("share of frames with the base upside down", turned, 0.5, "", hint, wrong=0.5))
    return [finding for finding in findings if finding is not None]


def _worst(
    name: str,
    values: Array,
    limit: float,
    unit: str,
    columns: Sequence[str],
    fps: float,
    decides: bool = True,
    wrong: float = np.inf,
) -> Finding:
    row, column = np.unravel_index(int(values.argmax()), values.shape)
    return Finding(name, float(values.max()), limit, unit, f"{columns[int(column)]}, {row / fps:.2f} s", decides, wrong)


def _usual(name: str, values: Array, columns: tuple[str, ...]) -> Finding | None:
    """What is not exceeded in :data:`USUAL` of the frames (T, C): inverse dynamics jump where a foot comes or goes."""
    if not len(values):
        return None
    levels = np.quantile(values, USUAL, axis=0)
    return Finding(name, float(levels.max()), 1.0, "", columns[int(levels.argmax())])


def _sole(robot: Robot, skeleton: Skeleton) -> Array:
    """Height of each foot's frame above its sole [m], (F,)."""
    data = skeleton.default()
    places = np.array([data.xpos[skeleton.model.body(name).id][2] for name in robot.foot_names])
    if robot.foot_height is not None:
        return np.full(len(places), robot.foot_height)
    return places - places.min()


def torques(motion: Motion, skeleton: Skeleton, stands: np.ndarray) -> tuple[Array, Array]:
    """Joint torques [N m], (T, J), and the share of the weight that feet which stand cannot hold, (T,)."""
    model, data, robot = skeleton.model, skeleton.data, skeleton.robot
    fps, count = motion.fps, len(motion)
    qpos = np.tile(skeleton.default().qpos, (count, 1))
    r = skeleton.root
    qpos[:, r : r + 3], qpos[:, r + 3 : r + 7] = motion.root_pos, motion.root_quat_wxyz
    qpos[:, skeleton.columns] = motion.joint_pos
    velocity = np.zeros((count, model.nv))
    for t in range(count):
        a, b = max(t - 1, 0), min(t + 1, count - 1)
        mujoco.mj_differentiatePos(model, velocity[t], (b - a) / fps, qpos[a], qpos[b])
    acceleration = np.gradient(velocity, 1 / fps, axis=0)
    feet = [model.body(name).id for name in robot.foot_names]
    weight = float(model.body_subtreemass[skeleton.base]) * 9.81
    base = slice(skeleton.root_dof, skeleton.root_dof + 6)
    found, unheld = np.zeros((count, robot.num_joints)), np.zeros(count)
    jacobian = np.zeros((3, model.nv))
    for t in range(count):
        data.qpos[:], data.qvel[:], data.qacc[:] = qpos[t], velocity[t], acceleration[t]
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        needed = np.zeros(model.nv)
        mujoco.mj_rne(model, data, 1, needed)
        rows = []
        for foot in np.flatnonzero(stands[t]):
            mujoco.mj_jacBody(model, data, jacobian, None, feet[foot])
            rows.append(jacobian.copy())
        carried = np.zeros(model.nv)
        if rows:
            whole = np.concatenate(rows)
            force, *_ = np.linalg.lstsq(whole[:, base].T, needed[base], rcond=1e-6)
            carried = whole.T @ force
        found[t] = (needed - carried)[skeleton.dofs]
        unheld[t] = float(np.linalg.norm((needed - carried)[base][:3])) / weight
    return found, unheld
