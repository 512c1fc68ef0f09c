"""MuJoCo model of a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from gaitway_tasks.robots.source import Inertial

from ..mujoco.shapes import KINDS, Shape
from .tree import Array, Foot, Link, Tree, total

TYPES = {kind: geom for geom, kind in KINDS.items()}
FRICTION = (0.8, 0.02, 0.01)
TINY = 1e-7
PHYSICS = ("ref", "springref", "stiffness", "damping", "frictionloss", "armature")


def build(
    tree: Tree, shapes: Mapping[str, Sequence[Shape]], feet: Sequence[Foot], height: float = 0.0
) -> mujoco.MjSpec:
    """The tree as a model, with ``shapes`` {link or foot: shapes in its link's frame} and ``feet`` as bodies."""
    spec = mujoco.MjSpec()
    spec.compiler.degree, spec.compiler.autolimits = False, True
    spec.option.timestep, spec.option.integrator = 0.005, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 100.0
    usual = spec.add_default("robot", spec.default).geom
    usual.contype, usual.conaffinity, usual.condim, usual.mass = 0, 1, 3, 0.0
    usual.friction, usual.solimp[:3], usual.rgba = FRICTION, [0.95, 0.99, 0.001], [0.55, 0.6, 0.65, 1.0]
    bodies: dict[str, Any] = {}
    own = {foot.link: foot.frame for foot in feet if foot.own_body}
    for link in tree.links:
        if link.parent is None:
            body = spec.worldbody.add_body(name=link.name, pos=[0.0, 0.0, height])
            body.add_freejoint(name="root")
        else:
            above = bodies[link.parent]
            body = above.add_body(name=link.name, pos=_tidy(link.position), quat=_quat(link.rotation))
        bodies[link.name] = body
        _add_joints(body, link)
        end = own.get(link.name)
        _set_inertial(body, total(frame.inertial for frame in link.frames if end is None or frame.name != end.name))
        _add_shapes(spec, body, shapes.get(link.name, ()), np.zeros(3), np.eye(3))
        if end is not None:
            at, turn = end.position, end.rotation
            foot = body.add_body(name=end.name, pos=_tidy(at), quat=_quat(turn))
            _set_inertial(foot, end.inertial.moved(-turn.T @ at, turn.T))
            _add_shapes(spec, foot, shapes.get(end.name, ()), at, turn)
    _close_loops(spec, tree, bodies)
    return spec


def _add_joints(body: Any, link: Link) -> None:
    for joint in link.joints:
        kind = mujoco.mjtJoint.mjJNT_SLIDE if joint.slide else mujoco.mjtJoint.mjJNT_HINGE
        physics = {name: getattr(joint, name) for name in PHYSICS}
        made = body.add_joint(name=joint.name, type=kind, pos=_tidy(joint.position), axis=_tidy(joint.axis), **physics)
        if joint.limits is not None:
            made.range, made.limited = joint.limits, 1


def _set_inertial(body: Any, part: Inertial) -> None:
    if part.mass > 0.0:
        moments, axes = part.principal()
        moments[2] = min(moments[2], moments[0] + moments[1])
        body.explicitinertial, body.mass, body.ipos = 1, part.mass, part.com
        body.inertia, body.iquat = np.maximum(moments, 0.0), _quat(axes)


def _add_shapes(spec: mujoco.MjSpec, body: Any, shapes: Sequence[Shape], at: Array, turn: Array) -> None:
    for number, shape in enumerate(shapes):
        name = f"{body.name}_{number}" if number else body.name
        made = body.add_geom(spec.find_default("robot"), name=name, type=TYPES[shape.kind])
        made.size, made.pos = np.round(shape.size, 6), _tidy(turn.T @ (shape.position - at))
        made.quat = _quat(turn.T @ shape.rotation)


def _close_loops(spec: mujoco.MjSpec, tree: Tree, bodies: Mapping[str, Any]) -> None:
    for number, loop in enumerate(tree.loops):
        made = spec.add_equality(type=mujoco.mjtEq.mjEQ_CONNECT, objtype=mujoco.mjtObj.mjOBJ_SITE)
        made.name1, made.name2 = ends = [f"loop_{number}_{end}" for end in ("a", "b")]
        for end, name, point in zip(ends, loop.names, loop.points, strict=True):
            bodies[name].add_site(name=end, pos=point, size=[0.005, 0.0, 0.0])
        made.solref, made.solimp = [0.01, 1.0], [0.99, 0.999, 0.001, 0.5, 2.0]  # by default a light rod gives way by cm


def _tidy(vector: Array) -> Array:
    """Numbers of a vector without the dust of rotations."""
    return np.where(np.abs(vector) < TINY, 0.0, np.round(vector, 9))


def _quat(rotation: Array) -> Array:
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(rotation).ravel())
    return _tidy(quat / np.linalg.norm(quat))
