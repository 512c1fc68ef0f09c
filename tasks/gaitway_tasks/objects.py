"""Objects beside a robot: what a task declares, and how training and the lab put them into a model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError

if TYPE_CHECKING:
    import mujoco

TOUCHED_BY = 2
"""Bit of ``contype`` of objects: shapes of a robot touch them that have it in their ``conaffinity``."""
PRIORITY = 10
"""Contact priority of objects. It is above that of robots and grounds, so an object has the same contacts in training,
where the ground's settings count, and in the lab, where the robot's do."""
SOLREF, SOLIMP = (0.01, 1.0), (0.8, 0.9, 0.001, 0.5, 2.0)
"""Softness of the contacts: a finger sinks 2 mm in. With an impedance of 0.95 and physics steps of 5 ms, a cube of
0.3 kg bounces between the fingers and slips out."""
SPIN, ROLL = 0.01, 0.0001
"""Torsional and rolling friction [m]: the first is about the radius of the patch of a fingertip that touches, times the
sliding friction."""


@dataclass(frozen=True, kw_only=True)
class RigidObject:
    """A cuboid that moves freely, in the place of Isaac Lab's ``RigidObjectCfg`` with a ``CuboidCfg``."""

    size: tuple[float, float, float]
    """Edge lengths [m]; typically 0.04 to 0.06 for a hand that opens by 0.08."""
    mass: float
    """[kg]"""
    pos: tuple[float, float, float]
    """Place of its middle at a reset, from where environments are [m]."""
    friction: float = 1.0
    """Sliding friction of all its contacts; typically 0.5 to 1.2."""

    def __post_init__(self) -> None:
        numbers = (*self.size, self.mass, self.friction)
        if not (all(0.0 < number < math.inf for number in numbers) and all(map(math.isfinite, self.pos))):
            raise UserError(f"{self}: its size, mass and friction must be above 0, and all numbers finite")


def add_objects(spec: mujoco.MjSpec, objects: Mapping[str, Any]) -> None:
    """Bodies with free joints after the robot in ``spec``, one for each of ``objects`` by name.

    Values have the fields of :class:`RigidObject`. Raises :class:`.robots.mjcf.ModelError` for a name that the robot
    has, and for a robot that no object could touch.
    """
    if not objects:
        _strip_grips(spec)
        return
    import mujoco

    from .robots.mjcf import ModelError

    if not any(geom.conaffinity & TOUCHED_BY for geom in spec.geoms if geom.parent.name != "world"):
        raise ModelError(
            f"no shape of the robot touches objects: set bit {TOUCHED_BY} of the conaffinity of those that shall"
        )
    for name, each in objects.items():
        if spec.body(name) is not None:
            raise ModelError(f"object {name!r}: the robot has a body of this name; call the object otherwise")
        body = spec.worldbody.add_body(name=name, pos=list(each.pos))
        body.add_freejoint(name=name)
        geom = body.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_BOX, size=[edge / 2.0 for edge in each.size])
        geom.mass, geom.friction, geom.priority = each.mass, [each.friction, SPIN, ROLL], PRIORITY
        geom.contype, geom.conaffinity, geom.condim = TOUCHED_BY, 1 | TOUCHED_BY, 4
        geom.solref, geom.solimp, geom.rgba = list(SOLREF), list(SOLIMP), [0.86, 0.42, 0.16, 1.0]


def _strip_grips(spec: mujoco.MjSpec) -> None:
    """Delete massless shapes that could touch nothing but objects, so that a world without objects has no cost."""
    geoms = [geom for geom in spec.geoms if geom.parent.name != "world"]
    if any(geom.contype & TOUCHED_BY for geom in geoms):
        return  # the robot uses the bit for itself
    for geom in geoms:
        if geom.contype == 0 and geom.conaffinity == TOUCHED_BY and geom.parent.explicitinertial:
            spec.delete(geom)


def addresses(model: mujoco.MjModel, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Addresses of each object in ``qpos``, of 7 numbers, and in ``qvel``, of 6."""
    joints = {name: model.joint(name) for name in names}
    return {name: (int(joint.qposadr[0]), int(joint.dofadr[0])) for name, joint in joints.items()}
