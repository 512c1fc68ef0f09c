"""A robot that Gaitway does not know, from its MJCF: joints, bodies, base and feet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
from gaitway_tasks.robots import Robot, mjcf

from .errors import IsaacLabImportError

SCALAR = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)


def robot_from_mjcf(path: Path, unlimited: float) -> Robot:
    """The robot in ``path``: all its hinge and slide joints, the body of its free joint as base.

    Its feet are the last links. Joints without a range get +-``unlimited`` [rad]. Pose, height and actuators are left
    at nothing: a run's configuration has them.
    """
    spec = mjcf.load_spec(path)
    model = mjcf.compile_spec(mjcf.load_spec(path), path)
    joints = [joint for joint in spec.joints if joint.type in SCALAR]
    if unnamed := [joint for joint in joints if not joint.name]:
        raise IsaacLabImportError(f"{path}: a joint of body {unnamed[0].parent.name!r} has no name; name them all")
    if not joints:
        raise IsaacLabImportError(f"{path} has no hinge or slide joint")
    base = _root(joints[0].parent)
    if any(_root(joint.parent).name != base.name for joint in joints):
        raise IsaacLabImportError(f"{path} holds more than one robot: leave the trained one alone in it")
    if not any(joint.type == mujoco.mjtJoint.mjJNT_FREE for joint in base.joints):
        raise IsaacLabImportError(f"{path}: body {base.name!r} has no free joint: add <freejoint/> to it")
    bodies = [body for body in spec.bodies if body.name != "world"]
    if any(not body.name for body in bodies):
        raise IsaacLabImportError(f"{path}: a body below {base.name!r} has no name; name them all")
    above = {ancestor for joint in joints for ancestor in _ancestors(joint.parent)}
    feet = dict.fromkeys(joint.parent.name for joint in joints if joint.parent.name not in above)
    limits = []
    for joint in joints:
        compiled = model.joint(joint.name)
        low, high = (float(x) for x in compiled.range)
        limits.append((low, high) if model.jnt_limited[compiled.id] else (-unlimited, unlimited))
    return Robot(
        name=path.stem,
        joint_names=tuple(joint.name for joint in joints),
        body_names=(base.name, *(body.name for body in bodies if body.name != base.name)),
        foot_names=tuple(feet),
        default_joint_pos=(0.0,) * len(joints),
        joint_limits=tuple(limits),
        soft_joint_pos_limit_factor=1.0,
        init_height=float(base.pos[2]),
        actuators={},
        mjcf=path,
    )


def _root(body: Any) -> Any:
    while body.parent is not None and body.parent.name != "world":
        body = body.parent
    return body


def _ancestors(body: Any) -> list[str]:
    names = []
    while (body := body.parent) is not None:
        names.append(body.name)
    return names
