"""An unknown robot from its MJCF: joints, bodies, base and feet, in one self-contained file."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mujoco
from gaitway_tasks.robots import Robot, mjcf
from gaitway_tasks.robots.mjcf import ModelError

from .model import ancestors
from .standalone import drop_looks, freeze, write_standalone

SCALAR = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
NEAR = 0.25  # share of the base's height above the lowest foot
UNLIMITED = 9.42477796076938  # [rad] for a joint without a range: three half turns, as ANYbotics writes
UNSEEN = 1 << 30  # a bit of conaffinity that no geom's contype has: such a geom touches through its pairs alone
ITERATIONS, LINE_SEARCHES = 100, 50  # of the constraint solver, at least: MuJoCo's defaults


class OwnModel:
    """The robot of an MJCF. ``robot.mjcf`` is a self-contained copy that exists as long as this object.

    All hinge and slide joints are the robot's, its base is the body of its free joint, its feet are the last links.
    Pose, gains and actuator limits are not set: they come from the run's configuration.
    """

    def __init__(self, path: Path):
        self._folder = tempfile.TemporaryDirectory(prefix="gaitway-model-")
        spec = mjcf.load_spec(path)
        _free_base(spec)
        _free_pairs(spec)
        drop_looks(spec)
        model = mjcf.compile_spec(spec, path)
        base = _check(spec, path)
        joints = [joint for joint in spec.joints if joint.type in SCALAR]
        above = {ancestor for joint in joints for ancestor in ancestors(joint.parent)}
        bodies = [body.name for body in spec.bodies if body.name != "world" and _root(body).name == base]
        self.effort_limits = mjcf.effort_limits(model, [joint.name for joint in joints])
        """What the file's actuators can give each joint at most [N m], where it says so."""
        limits = []
        for joint in joints:
            compiled = model.joint(joint.name)
            low, high = (float(x) for x in compiled.range)
            limits.append((low, high) if model.jnt_limited[compiled.id] else (-UNLIMITED, UNLIMITED))
        self.robot = Robot(
            name=path.stem,
            joint_names=tuple(joint.name for joint in joints),
            body_names=(base, *(name for name in bodies if name != base)),
            foot_names=tuple(dict.fromkeys(j.parent.name for j in joints if j.parent.name not in above)),
            default_joint_pos=(0.0,) * len(joints),
            joint_limits=tuple(limits),
            soft_joint_pos_limit_factor=1.0,
            init_height=float(spec.body(base).pos[2]),
            actuators={},
            mjcf=_alone(spec, model, base, Path(self._folder.name) / path.name, path),
        )

    def feet(self, pose: Mapping[str, float]) -> tuple[str, ...]:
        """Last links that are near the ground in ``pose`` ({joint: rad}): a hand is no foot."""
        model = mujoco.MjModel.from_xml_path(str(self.robot.mjcf))
        data = mujoco.MjData(model)
        for joint, angle in pose.items():
            data.qpos[model.joint(joint).qposadr[0]] = angle
        mujoco.mj_kinematics(model, data)
        heights = {name: float(data.body(name).xpos[2]) for name in self.robot.foot_names}
        lowest = min(heights.values())
        reach = lowest + NEAR * (float(data.body(self.robot.base_name).xpos[2]) - lowest)
        return tuple(name for name, height in heights.items() if height <= reach)


def _check(spec: Any, path: Path) -> str:
    """The base's name; raises if the file is not one robot with a free base and a name for everything."""
    joints = [joint for joint in spec.joints if joint.type in SCALAR]
    if not joints:
        raise ModelError(f"{path} has no hinge or slide joint")
    if unnamed := [joint for joint in joints if not joint.name]:
        raise ModelError(f"{path}: a joint of body {unnamed[0].parent.name!r} has no name; name them all")
    base = _root(joints[0].parent)
    if any(_root(joint.parent).name != base.name for joint in joints):
        raise ModelError(f"{path} holds more than one robot: leave the trained one alone in it")
    if not any(joint.type == mujoco.mjtJoint.mjJNT_FREE for joint in base.joints):
        raise ModelError(f"{path}: body {base.name!r} has no free joint: add <freejoint/> to it")
    if any(not body.name for body in spec.bodies if _root(body).name == base.name):
        raise ModelError(f"{path}: a body below {base.name!r} has no name; name them all")
    return str(base.name)


def _alone(spec: Any, model: mujoco.MjModel, base: str, out: Path, path: Path) -> Path:
    """Write the robot alone: no scene and no control."""
    freeze(spec, model)
    for group in (spec.actuators, spec.sensors, spec.keys):
        for element in list(group):
            spec.delete(element)
    for element in (*spec.worldbody.geoms, *spec.worldbody.lights, *spec.worldbody.cameras, *spec.worldbody.sites):
        spec.delete(element)
    for body in list(spec.worldbody.bodies):
        if body.name != base:
            spec.delete(body)
    # Models for MJX allow one iteration, which does not hold a robot on the ground in other contact settings.
    spec.option.iterations = max(spec.option.iterations, ITERATIONS)
    spec.option.ls_iterations = max(spec.option.ls_iterations, LINE_SEARCHES)
    write_standalone(spec, model, base, out, path)
    return out


def _free_base(spec: Any) -> None:
    """Give bodies that three slides and a ball let free a free joint in their place."""
    for body in spec.worldbody.bodies:
        joints = list(body.joints)
        kinds = sorted(int(joint.type) for joint in joints)
        if kinds == sorted([int(mujoco.mjtJoint.mjJNT_BALL), *[int(mujoco.mjtJoint.mjJNT_SLIDE)] * 3]):
            for joint in joints:
                spec.delete(joint)
            body.add_freejoint()


def _free_pairs(spec: Any) -> None:
    """Let geoms that touch the scene's only through a ``<pair>`` touch any ground, and delete those pairs.

    A pair names the scene's floor, which does not come along. Pairs of two of the robot's own geoms stay.
    """
    scene = {geom.name for geom in spec.worldbody.geoms}
    own = {geom.name: geom for geom in spec.geoms if geom.name and geom.name not in scene}
    for pair in list(spec.pairs):
        names = (pair.geomname1, pair.geomname2)
        for name in names:
            if name in own and not all(other in own for other in names):
                own[name].conaffinity |= 1
                own[name].condim = max(own[name].condim, 3)
            elif name in own and not (own[name].contype or own[name].conaffinity):
                own[name].conaffinity = UNSEEN
        if not all(name in own for name in names):
            spec.delete(pair)


def _root(body: Any) -> Any:
    while body.parent is not None and body.parent.name != "world":
        body = body.parent
    return body
