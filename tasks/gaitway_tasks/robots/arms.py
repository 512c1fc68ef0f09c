"""Facts of an arm that its model tells: the chain of joints to its hand, and the torque that holds it up."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import mujoco
import numpy as np
from numpy.typing import NDArray

from . import mjcf
from .anatomy import _model


@dataclass(frozen=True)
class Link:
    """A body of a chain: its frame in that of the body before it, and the joint that turns it."""

    pos: tuple[float, ...]
    """[m], (3,)"""
    quat: tuple[float, ...]
    """w, x, y, z"""
    joint: int
    """Index of the joint among those asked for; 0 with an axis of zeros if it has none."""
    axis: tuple[float, ...]
    """(3,), in its own frame"""


def chain(path: Path, joint_names: tuple[str, ...], base: str, body: str) -> list[Link]:
    """Bodies from the one after ``base`` to ``body``, of the model at ``path``.

    Raises :class:`.mjcf.ModelError` for a joint that is no hinge at its body's origin.
    """
    model = _model(path)
    found, at = [], model.body(body).id
    while at != model.body(base).id:
        if at == 0:
            raise mjcf.ModelError(f"{path}: {body} does not hang from {base}")
        joint, axis = 0, (0.0, 0.0, 0.0)
        if model.body_jntnum[at]:
            own = model.body_jntadr[at]
            name = model.joint(own).name
            hinge = model.jnt_type[own] == mujoco.mjtJoint.mjJNT_HINGE and not model.jnt_pos[own].any()
            if model.body_jntnum[at] > 1 or not hinge or name not in joint_names:
                raise mjcf.ModelError(f"{path}: joint {name!r} is on the way to {body}, and no hinge at its origin")
            joint, axis = joint_names.index(name), tuple(model.jnt_axis[own].tolist())
        found.append(Link(tuple(model.body_pos[at].tolist()), tuple(model.body_quat[at].tolist()), joint, axis))
        at = model.body_parentid[at]
    return found[::-1]


def loads(
    path: Path,
    joint_names: tuple[str, ...],
    angles: NDArray[np.float64],
    scaled: Mapping[str, float] = MappingProxyType({}),
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Torque that holds each joint of the model at ``path`` against gravity [N m], and its inertia [kg m^2], (S, J).

    ``angles`` are (S, J) [rad], in the order of ``joint_names``; the inertia is that of all that a joint moves, its
    rotor included, while the others stand still. ``scaled`` are factors on the masses of bodies, by name.
    """
    model = copy.copy(_model(path))
    for body, factor in scaled.items():
        model.body_mass[model.body(body).id] *= factor
    data, mass = mujoco.MjData(model), np.zeros((model.nv, model.nv))
    places = [model.joint(name).qposadr[0] for name in joint_names]
    dofs = [model.joint(name).dofadr[0] for name in joint_names]
    torque, inertia = np.zeros(angles.shape), np.zeros(angles.shape)
    for row, each in enumerate(angles):
        data.qpos[places] = each
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        mujoco.mj_fullM(model, data, mass)
        torque[row], inertia[row] = data.qfrc_bias[dofs], mass.diagonal()[dofs]
    return torque, inertia
