"""Any MJCF of a robot, reduced to the robot alone on a floor of ours, whatever else the file holds.

Validation and the digital twin both start from this: bodies, inertias, shapes, joint friction and contact parameters
are the file's; floor, keyframes, gravity, solver accuracy, sensors and actuators are not, and neither is what only a
simulation can give a robot, such as less weight or a string to the sky.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from gaitway_tasks.ground import LEVEL, Ground
from gaitway_tasks.robots.mjcf import (
    ModelError,
    add_ground,
    check_joints,
    check_meshes,
    ground_geoms,
    load_spec,
    strip_visuals,
)

from .alignment import BaseFrame
from .stage import dress_ground, set_stage

GRAVITY = 9.81
ALL_BITS = 2**31 - 1
ABOVE = 50.0  # [m], from where rays look for the ground
HOLDS = ("stiffness", "damping", "frictionloss", "armature")
"""Attributes of a joint that are read."""
_FREE = mujoco.mjtJoint.mjJNT_FREE
_SCALAR = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)


@dataclass(frozen=True, kw_only=True)
class RobotModel:
    """A compiled robot and where its base and joints are. J joints, in the order they were asked for."""

    model: mujoco.MjModel
    joint_qpos: np.ndarray  # (J,) addresses in qpos
    joint_dof: np.ndarray  # (J,) addresses in qvel
    base_body: int
    base_qpos: int  # of a fixed base the end of qpos, where nothing is
    base_dof: int
    fixed_pose: np.ndarray | None = None  # (7,), position [m] and quaternion of a base that is fixed to the world
    frame: BaseFrame = field(default_factory=BaseFrame)
    start_height: float  # [m], base origin above the ground in the default pose, along the ground's normal
    foot_names: tuple[str, ...] = ()
    ground: Ground = LEVEL

    def base_pose(self, qpos: np.ndarray) -> np.ndarray:
        """Position [m] and quaternion of the model's base in states ``qpos`` (..., nq), (..., 7)."""
        if self.fixed_pose is not None:
            return np.broadcast_to(self.fixed_pose, (*qpos.shape[:-1], 7))
        return qpos[..., self.base_qpos : self.base_qpos + 7]


def addresses(model: mujoco.MjModel, base: str, joint_names: Sequence[str]) -> dict[str, Any]:
    """The fields of :class:`RobotModel` that follow from names, the model among them."""
    base_body = int(model.body(base).id)
    root = int(model.body_jntadr[base_body])
    joints = [model.joint(name).id for name in joint_names]
    found = {
        "model": model,
        "joint_qpos": model.jnt_qposadr[joints],
        "joint_dof": model.jnt_dofadr[joints],
        "base_body": base_body,
    }
    if root < 0:
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        pose = np.concatenate((data.xpos[base_body], data.xquat[base_body]))
        return found | {"base_qpos": model.nq, "base_dof": model.nv, "fixed_pose": pose}
    return found | {"base_qpos": int(model.jnt_qposadr[root]), "base_dof": int(model.jnt_dofadr[root])}


def colliding_geoms(model: mujoco.MjModel) -> np.ndarray:
    """Ids of the robot's geoms that can touch anything."""
    return np.flatnonzero((model.geom_bodyid > 0) & ((model.geom_contype > 0) | (model.geom_conaffinity > 0)))


def prepare_robot(
    path: Path,
    joint_names: Sequence[str],
    *,
    timestep: float,
    ground: Ground = LEVEL,
    visual: bool = False,
    fixed_base: bool = False,
) -> tuple[Any, str]:
    """:func:`load_robot` in the world of :func:`set_world`; ``timestep`` [s] is that of the physics.

    ``visual`` dresses it for a camera; otherwise shapes that mean nothing to physics are left out.
    """
    spec, base = load_robot(path, joint_names, fixed_base=fixed_base)
    set_world(spec, ground)
    spec.option.timestep = timestep
    if visual:
        set_stage(spec)
    else:
        strip_visuals(spec)
    return spec, base


def check_feet(spec: Any, path: Path) -> None:
    """Raise :class:`ModelError` if no geom of the robot can touch the ground."""
    if not any(geom.contype or geom.conaffinity for body in spec.bodies if body.name != "world" for geom in body.geoms):
        raise ModelError(f"{path}: no geom of the robot can collide (contype and conaffinity are 0): it has no feet")


def add_contact_sensor(
    spec: Any, name: str, body: str, fields: Sequence[Any], *, subtree: bool, net: bool, count: int = 1
) -> None:
    """A sensor of what ``body`` touches of the world; ``fields`` are MuJoCo's contact data.

    ``subtree`` takes in the bodies below it; ``net`` adds all contacts up, otherwise the ``count`` hardest are listed.
    """
    spec.add_sensor(
        name=name,
        type=mujoco.mjtSensor.mjSENS_CONTACT,
        objtype=mujoco.mjtObj.mjOBJ_XBODY if subtree else mujoco.mjtObj.mjOBJ_BODY,
        objname=body,
        reftype=mujoco.mjtObj.mjOBJ_BODY,
        refname="world",
        intprm=[sum(1 << int(field) for field in fields), 3 if net else 2, count],
    )


def load_robot(path: Path, joint_names: Sequence[str], *, fixed_base: bool = False) -> tuple[Any, str]:
    """The robot of an MJCF as a spec, and the name of its base: the body of the free joint, or the fixed one.

    Raises :class:`ModelError`, one line that names the file, unless every joint is there and all hang on one free body,
    or on one that is fixed with ``fixed_base``.
    """
    return _robot_only(_load(path, joint_names), joint_names, path, fixed_base=fixed_base)


def help_in(path: Path, joint_names: Sequence[str], *, fixed_base: bool = False) -> tuple[str, ...]:
    """Aids of an MJCF that no real robot has, and that :func:`load_robot` leaves out; raises as that does."""
    found: list[str] = []
    _robot_only(_load(path, joint_names), joint_names, path, found, fixed_base=fixed_base)
    return tuple(found)


def _load(path: Path, joint_names: Sequence[str]) -> Any:
    try:
        spec = load_spec(path)
        check_joints(spec, joint_names)
    except ModelError as error:
        reason = " ".join(str(error).split())
        raise ModelError(reason if str(path) in reason else f"{path}: {reason}") from None
    return spec


def _robot_only(
    spec: Any, joint_names: Sequence[str], path: Path, left_out: list[str] | None = None, *, fixed_base: bool = False
) -> tuple[Any, str]:
    names = Counter(joint.name for joint in spec.joints)
    if twice := [name for name in joint_names if names[name] > 1]:
        raise ModelError(f"{path} has more than one joint named {', '.join(twice)}: give each joint a name of its own")
    by_name = {joint.name: joint for joint in spec.joints}
    roots = {_root_body(by_name[name].parent).id for name in joint_names}
    base = _root_body(by_name[joint_names[0]].parent)
    if len(roots) > 1:
        raise ModelError(f"{path}: the joints to control hang on {len(roots)} separate bodies, not on one robot")
    if fixed_base and base.joints:
        raise ModelError(f"{path}: body {base.name!r} has a joint, and the base of this robot is fixed: take it out")
    if not fixed_base and not any(joint.type == _FREE for joint in base.joints):
        raise ModelError(
            f"{path}: body {base.name!r}, which carries the joints to control, has no free joint: "
            "add <freejoint/> to it, since a fixed robot cannot walk"
        )
    driven = {actuator.target for actuator in spec.actuators}
    for group in (spec.actuators, spec.sensors, spec.keys):
        for element in list(group):
            spec.delete(element)
    for pair in list(spec.pairs):  # contacts by list, mostly with a floor that is about to go
        for geom in (pair.geomname1, pair.geomname2):
            if (found := spec.geom(geom)) is not None:
                found.conaffinity = found.conaffinity or 1
        spec.delete(pair)
    found = _take_help(spec, base)
    if left_out is not None:
        left_out += found
    for body in list(spec.worldbody.bodies):
        if body.id != base.id:
            spec.delete(body)
    for geom in list(spec.worldbody.geoms):
        spec.delete(geom)
    for joint in list(spec.joints):
        if joint.type in _SCALAR and joint.name not in joint_names and joint.name in driven:
            spec.delete(joint)  # an arm or a camera neck, say: no policy commands it, so it is held still
    for number, body in enumerate(spec.bodies):
        body.name = body.name or f"unnamed_{number}"
    for joint in spec.joints:
        joint.actfrclimited = 0  # the torque limit is part of the actuator law
    return spec, base.name


def _take_help(spec: Any, base: Any) -> list[str]:
    """Take from the robot under ``base`` what holds, carries or moves it without a motor, and say what there was."""
    found, option = [], spec.option
    if light := [body.name or "a body" for body in spec.bodies if body.gravcomp]:
        found.append(f"gravity compensation of {', '.join(light)}")
        for body in spec.bodies:
            body.gravcomp = 0.0
    if np.any(option.wind) or option.density or option.viscosity:
        found.append("wind, or a fluid around it")
        option.wind, option.density, option.viscosity = [0.0, 0.0, 0.0], 0.0, 0.0
    for joint in (each for each in base.joints if each.type == _FREE):
        if any(np.any(getattr(joint, name)) for name in HOLDS):
            found.append("a spring, damping, friction or inertia of its free base")
            for name in HOLDS:
                setattr(joint, name, 0.0 * np.asarray(getattr(joint, name)))
    ties = [each for each in spec.equalities if _is_tied(spec, each, base)]
    strings = [each for each in spec.tendons if any(_is_outside(wrap.target, base) for wrap in each.path)]
    if ties or strings:
        found.append(f"{len(ties) + len(strings)} constraints or tendons between it and the world")
        for element in (*ties, *strings):
            spec.delete(element)
    option.enableflags, option.noslip_iterations = 0, 0
    return found


def _is_tied(spec: Any, equality: Any, base: Any) -> bool:
    """True if an equality of two bodies or sites ties the robot to anything else."""
    kinds = {mujoco.mjtObj.mjOBJ_BODY: spec.body, mujoco.mjtObj.mjOBJ_SITE: spec.site}
    if equality.type not in (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD) or equality.objtype not in kinds:
        return False
    ends = [kinds[equality.objtype](name) if name else None for name in (equality.name1, equality.name2)]
    return any(end is None or _is_outside(end, base) for end in ends)


def _is_outside(element: Any, base: Any) -> bool:
    """True if a body, or the body of a site or geom, is not of the robot."""
    body = element if hasattr(element, "joints") else getattr(element, "parent", None)
    while body is not None and body.name != "world":
        if body.id == base.id:
            return False
        body = body.parent
    return body is not None


def _root_body(body: Any) -> Any:
    while body.parent is not None and body.parent.name != "world":
        body = body.parent
    return body


def last_links(spec: Any, joint_names: Sequence[str]) -> list[str]:
    """Bodies of driven joints below which there is no other driven joint, in the order of ``joint_names``."""
    driven = [spec.joint(name).parent for name in joint_names]
    above = {ancestor for body in driven for ancestor in ancestors(body)}
    return list(dict.fromkeys(body.name for body in driven if body.name not in above))


def ancestors(body: Any) -> list[str]:
    """Names of the bodies above ``body``, nearest first, the world last."""
    names = []
    while (body := body.parent) is not None:
        names.append(body.name)
    return names


def lay_ground(spec: Any, ground: Ground) -> None:
    """Put the robot on ``ground``, in place of what it stood on."""
    for geom in list(spec.worldbody.geoms):
        spec.delete(geom)
    # The softness and friction of a contact are the robot's: its geoms all rank above the ground.
    priority = min((geom.priority for geom in spec.geoms), default=0) - 1
    for geom in spec.geoms:  # the robot's condim counts, being of higher priority: a foot of 1 would have no grip
        geom.condim = max(geom.condim, 3)
    for geom in add_ground(spec, ground):
        geom.contype = geom.conaffinity = ALL_BITS  # whatever bits the file uses, its colliding geoms meet the ground
        geom.priority = priority
    dress_ground(spec)


def distance_to_ground(data: mujoco.MjData, geom: int) -> float:
    """Smallest distance of a geom from the ground [m], below 10 m; negative in it."""
    model = data.model
    found = (mujoco.mj_geomDistance(model, data, ground, geom, 10.0, None) for ground in ground_geoms(model).tolist())
    return float(min(found))


def ground_height(data: mujoco.MjData, xy: Sequence[float] | np.ndarray) -> float:
    """Height of the ground at ``xy`` [m], by rays; 0 where there is none."""
    model, start, down = data.model, np.array([xy[0], xy[1], ABOVE]), np.array([0.0, 0.0, -1.0])
    nearest = np.inf
    for geom in ground_geoms(model).tolist():
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_HFIELD:
            distance = mujoco.mj_rayHfield(model, data, geom, start, down, None)
        else:
            at, turn, size = data.geom_xpos[geom], data.geom_xmat[geom], model.geom_size[geom]
            distance = mujoco.mju_rayGeom(at, turn, size, start, down, model.geom_type[geom], None)
        if 0.0 <= distance < nearest:
            nearest = distance
    return ABOVE - nearest if np.isfinite(nearest) else 0.0


def set_world(spec: Any, ground: Ground) -> None:
    """Put the robot on ``ground``, under our solver settings."""
    lay_ground(spec, ground)
    spec.option.gravity = [0.0, 0.0, -GRAVITY]
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST  # the law's damping needs an implicit step
    spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    spec.option.iterations, spec.option.ls_iterations, spec.option.tolerance = 100, 50, 1e-8
    # A diverged robot must stay diverged, so that it is counted: by default MuJoCo would put it back on its feet.
    spec.option.disableflags = mujoco.mjtDisableBit.mjDSBL_AUTORESET


def compile_robot(spec: Any, path: Path) -> mujoco.MjModel:
    """Compile; an error fits on one line and names the file."""
    check_meshes(spec, path)
    try:
        return spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{path} does not compile as a robot: {reason}") from None
