"""Contact model, time step and feet of a simulation, as data: where a scenario differs from the robot's own file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from gaitway_onboard.rotation import quat_conjugate, quat_mul

from .feet import shapes_below
from .model import distance_to_ground

PHYSICS_DT = 0.005  # [s], the coarsest step that a verdict is worth
LOWEST = 0.005  # [m], shapes of a foot within this of its lowest point touch a level ground
CONES = {"pyramidal": mujoco.mjtCone.mjCONE_PYRAMIDAL, "elliptic": mujoco.mjtCone.mjCONE_ELLIPTIC}
INTEGRATORS = {"implicitfast": mujoco.mjtIntegrator.mjINT_IMPLICITFAST, "euler": mujoco.mjtIntegrator.mjINT_EULER}
_GEOM = mujoco.mjtGeom
_SCALED = {  # the sizes of a shape that grow with a foot; a capsule's length is its link's
    _GEOM.mjGEOM_SPHERE: slice(0, 1), _GEOM.mjGEOM_CAPSULE: slice(0, 1), _GEOM.mjGEOM_CYLINDER: slice(0, 2),
    _GEOM.mjGEOM_ELLIPSOID: slice(0, 3), _GEOM.mjGEOM_BOX: slice(0, 3),
}  # fmt: skip
ACROSS = np.array([np.sqrt(0.5), -np.sqrt(0.5), 0.0, 0.0])  # turns z, a capsule's axis, to y
CAPSULE, WORN = "capsule", "worn"
WORN_WIDTH = 0.5  # half the width of the flat of a worn ball, in radii


@dataclass(frozen=True, kw_only=True)
class Physics:
    """Differences of a simulation from the robot's own file; None keeps the file's value.

    ``solref`` and ``solimp`` are MuJoCo's softness of a contact and hold for all shapes of the robot that can collide.
    """

    timestep: float = PHYSICS_DT
    """Longest physics step [s]; the contract's own, if shorter, and one that divides its control step are preferred."""
    integrator: str = "implicitfast"
    """``implicitfast`` or ``euler``."""
    cone: str | None = None
    """Friction cone, ``pyramidal`` or ``elliptic``."""
    impratio: float | None = None
    """Stiffness of friction over that of normal contact: the larger, the less a loaded sole creeps."""
    solref: tuple[float, float] | None = None
    """Time constant [s] and damping ratio of a contact."""
    solimp: tuple[float, float, float] | None = None
    """Impedance at first touch and at ``width``, and that width [m]."""
    foot_size: float = 1.0
    """Factor on the size of the shapes that feet stand on."""
    foot_shape: str | None = None
    """``capsule``: ball feet become capsules that lie across. ``worn``: they become a ball's flat, worn sole."""

    @property
    def alters_feet(self) -> bool:
        return self.foot_size != 1.0 or self.foot_shape is not None

    def apply(self, spec: Any) -> None:
        """Set solver and contacts of a robot's spec; ``timestep`` is set with the world."""
        spec.option.integrator = INTEGRATORS[self.integrator]
        if self.cone is not None:
            spec.option.cone = CONES[self.cone]
        if self.impratio is not None:
            spec.option.impratio = self.impratio
        for geom in spec.geoms:
            if geom.parent.name == "world" or not _collides(geom):
                continue
            if self.solref is not None:
                geom.solref = self.solref
            if self.solimp is not None:
                geom.solimp[:3] = self.solimp


NOMINAL_PHYSICS = Physics()


def soles(spec: Any, feet: Sequence[str], stance: mujoco.MjData) -> list[Any]:
    """Geoms of the bodies ``feet``, and of those below them, that touch a level ground in the pose of ``stance``."""
    found = []
    for foot in feet:
        geoms = shapes_below(spec, foot)
        height = [distance_to_ground(stance, geom.id) for geom in geoms]
        found += [geom for geom, above in zip(geoms, height, strict=True) if above < min(height) + LOWEST]
    return found


def can_alter(shapes: Sequence[Any], physics: Physics) -> bool:
    """True if all these geoms can take the size and the shape; a mesh can take neither, a box no other shape."""
    wanted = _SCALED if physics.foot_shape is None else {_GEOM.mjGEOM_SPHERE}
    return all(geom.type in wanted for geom in shapes)


def alter_feet(shapes: Sequence[Any], physics: Physics, stance: mujoco.MjData) -> None:
    """Give the geoms of :func:`soles` the size and shape of ``physics``; new shapes are level in ``stance``."""
    for geom in shapes:
        sizes = _SCALED[geom.type]
        size = geom.size.copy()
        size[sizes] *= physics.foot_size
        if physics.foot_shape is not None:
            radius, level = size[0], quat_conjugate(stance.xquat[stance.model.geom_bodyid[geom.id]])
            if physics.foot_shape == CAPSULE:
                geom.type, size, level = (
                    _GEOM.mjGEOM_CAPSULE,
                    np.array([radius, radius / 2, 0.0]),
                    quat_mul(level, ACROSS),
                )
            else:
                half = WORN_WIDTH * radius
                geom.type, size = _GEOM.mjGEOM_BOX, np.array([half, half, np.sqrt(radius**2 - half**2)])
            geom.quat = level
        geom.size = size


def _collides(geom: Any) -> bool:
    return bool(geom.contype or geom.conaffinity)
