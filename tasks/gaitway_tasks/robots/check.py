"""Hold a robot's data against itself and against its model, before anything is simulated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields

import mujoco
import numpy as np

from . import mjcf
from .robot import ActuatorLaw, Robot

RANGE_TOLERANCE = 0.02
"""Difference of a limit from the model's that rounding explains [rad]."""
BURIED = 0.05
"""Depth of a shape below flat ground at the start [m], from which a robot is thrown up."""
ONE_AXIS = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
DEGREES = 180.0 / math.pi


def check_robot(robot: Robot, *, start: bool = True) -> None:
    """Raise :class:`.mjcf.ModelError` with the first fault: field, joint or body, value, and the model's value.

    ``start=False`` leaves out where an episode begins, for a robot that is put on the ground wherever it is.
    """
    if (fault := next(_faults(robot, start), None)) is not None:
        raise mjcf.ModelError(f"robot {robot.name}: {fault}")


def _faults(robot: Robot, start: bool) -> Iterator[str]:
    """Faults in the order in which they can be looked for: those before the first one hold."""
    yield from _lengths(robot)
    yield from _values(robot)
    spec = mjcf.load_spec(robot.mjcf)
    mjcf.check_joints(spec, robot.joint_names)
    yield from _bodies(robot, spec)
    model = mjcf.compile_spec(spec, robot.mjcf)
    yield from _joints(robot, model)
    if start and not robot.fixed_base:
        yield from _start(robot)


def _lengths(robot: Robot) -> Iterator[str]:
    for name in ("joint_names", "body_names", "foot_names"):
        names = getattr(robot, name)
        if not names and not (robot.fixed_base and name == "foot_names"):
            fixed = ": set fixed_base=True for a robot without a free joint" if name == "foot_names" else ""
            yield f"{name} is empty{fixed}"
        if twice := sorted({each for each in names if names.count(each) > 1}):
            yield f"{name} has {twice[0]!r} twice"
    for name in ("default_joint_pos", "joint_limits"):
        if (count := len(getattr(robot, name))) != robot.num_joints:
            yield f"{name} has {count} entries, and joint_names has {robot.num_joints}: give one for each joint"
    for foot in robot.foot_names:
        if foot not in robot.body_names:
            yield f"foot_names has {foot!r}, which is not in body_names"


def _values(robot: Robot) -> Iterator[str]:
    for joint, pose, (low, high) in zip(robot.joint_names, robot.default_joint_pos, robot.joint_limits, strict=True):
        if not low < high:
            yield f"joint_limits of {joint} are ({low:g}, {high:g}): the lower one comes first"
        if not low <= pose <= high:
            turned = pose / DEGREES
            hint = f"; if it is in degrees, write {turned:.4g} rad" if low <= turned <= high else ""
            yield f"default_joint_pos of {joint} is {pose:g}, outside its joint_limits ({low:g}, {high:g}){hint}"
    for name, at_least in (("init_height", False), ("foot_height", True)):
        value, at_least = getattr(robot, name), at_least or robot.fixed_base
        if value is not None and not (math.isfinite(value) and (value > 0.0 or (at_least and value == 0.0))):
            yield f"{name} is {value:g} m: it must be {'at least' if at_least else 'above'} 0"
    for joint, law in zip(robot.joint_names, robot.joint_actuators, strict=True):
        yield from _law(joint, law)


def _law(joint: str, law: ActuatorLaw) -> Iterator[str]:
    for field in fields(law):
        value = getattr(law, field.name)
        if not isinstance(value, int | float):
            continue
        needed = field.name in ("effort_limit", "saturation_effort", "velocity_limit")
        if not math.isfinite(value) or value < 0.0 or (needed and value == 0.0):
            yield f"{field.name} of {joint} is {value:g}: it must be {'above' if needed else 'at least'} 0"


def _bodies(robot: Robot, spec: mujoco.MjSpec) -> Iterator[str]:
    bodies = {body.name: body for body in spec.bodies if body.name != "world"}
    named = ", ".join(bodies)
    for name in robot.body_names:
        if name not in bodies:
            yield f"body_names has {name!r}, and {robot.mjcf} has no such body; it has {named}"
    base = bodies[robot.base_name]
    free = [joint for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE]
    if robot.fixed_base:
        if free:
            yield f"fixed_base is true, and {robot.mjcf} has a free joint on {free[0].parent.name!r}: take one out"
        if base.joints:
            joint = base.joints[0].name
            yield f"fixed_base is true, and {base.name!r} has the joint {joint!r}: begin body_names where it is fixed"
        return
    if not free:
        yield (
            f"{robot.mjcf} has no free joint, so its base cannot move: add <freejoint/> to the body {base.name!r}, or "
            "set fixed_base=True for a robot that does not walk"
        )
    if len(free) > 1 or free[0].parent.name != base.name:
        where = ", ".join(repr(joint.parent.name) for joint in free)
        yield f"{robot.mjcf} has its free joint on {where}: it belongs to the first of body_names, {base.name!r}, alone"
    for foot in robot.foot_names:
        geoms = [geom for body in _family(bodies[foot]) for geom in body.geoms]
        if not any(geom.contype or geom.conaffinity for geom in geoms):
            yield f"foot_names has {foot!r}, which has no shape in {robot.mjcf} that can touch the ground"


def _family(body: mujoco.MjsBody) -> Iterator[mujoco.MjsBody]:
    """A body and those that are fixed to it."""
    yield body
    for child in body.bodies:
        if not child.joints:
            yield from _family(child)


def _joints(robot: Robot, model: mujoco.MjModel) -> Iterator[str]:
    for name, limits in zip(robot.joint_names, robot.joint_limits, strict=True):
        joint = model.joint(name)
        if joint.type[0] not in ONE_AXIS:
            yield f"joint_names has {name!r}, which has more than one axis in {robot.mjcf}: give it hinges"
        if not joint.limited[0]:
            continue
        own = np.array(limits)
        if (np.abs(own - joint.range) <= RANGE_TOLERANCE).all():
            continue
        said = f"joint_limits of {name} are ({own[0]:g}, {own[1]:g}), and {robot.mjcf} has ({joint.range[0]:.4g}, "
        if np.allclose(own, joint.range * DEGREES, rtol=0.02):
            in_degrees = np.abs(own).max() > 2.0 * math.pi
            why = (
                "joint_limits are in degrees: give them in radians"
                if in_degrees
                else 'its angles were written in radians and read as degrees: add <compiler angle="radian"/>'
            )
        elif own[0] >= joint.range[0] - RANGE_TOLERANCE and own[1] <= joint.range[1] + RANGE_TOLERANCE:
            continue  # it is told to use a part of what it has
        else:
            why = "make them agree"
        yield f"{said}{joint.range[1]:.4g}): {why}"


def _start(robot: Robot) -> Iterator[str]:
    """Is it above flat ground where every episode begins?"""
    spec = mjcf.load_spec(robot.mjcf)
    ground = spec.worldbody.add_geom(name="check/ground", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 1.0])
    ground.contype = ground.conaffinity = 1
    model = mjcf.compile_spec(spec, robot.mjcf)
    data = mujoco.MjData(model)
    (root,) = (joint for joint in range(model.njnt) if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE)
    start = model.jnt_qposadr[root]
    data.qpos[start : start + 7] = 0.0, 0.0, robot.init_height, 1.0, 0.0, 0.0, 0.0
    for name, pose in zip(robot.joint_names, robot.default_joint_pos, strict=True):
        data.qpos[model.joint(name).qposadr[0]] = pose
    mujoco.mj_forward(model, data)
    plane = model.geom("check/ground").id
    depths = [
        (float(contact.dist), int(max(contact.geom[0], contact.geom[1], key=lambda geom: geom != plane)))
        for contact in data.contact[: data.ncon]
        if plane in contact.geom
    ]
    if not depths:
        return
    depth, geom = min(depths)
    if depth < -BURIED:
        body = model.body(model.geom_bodyid[geom]).name
        yield (
            f"at init_height={robot.init_height:g} m in the default pose, {body} is {-depth:.2f} m below the ground: "
            f"raise init_height to {robot.init_height - depth:.2f}"
        )
