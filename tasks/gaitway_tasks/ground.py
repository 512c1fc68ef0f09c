"""The ground: the kinds that a task or a scenario names, and what resets, rewards, falls and height scans ask of it.

A kind is a frozen dataclass with a ``height`` and a ``build``; ours have a row in :data:`KINDS`, and one of another
package is named ``module:Class``. Positions are arrays of torch (in training) or of numpy (in the lab), and so are the
answers. A ground whose tiles change while robots learn is an object of its own, see :meth:`Ground.under`.
"""

from __future__ import annotations

import functools
import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from gaitway_files.errors import UserError

Array = Any
"""Array of numpy or of torch."""

KINDS = (
    "gaitway_tasks.ground:Plane",
    "gaitway_tasks.ground:Slope",
    "gaitway_tasks.terrain:Tiles",
    "gaitway_tasks.terrain:Course",
)
"""The kinds of ground, imported when a task has one."""
NEAR = 0.05
"""Distance [m] over which a ground without a normal of its own is compared."""

TURNS = tuple((math.cos(angle), math.sin(angle)) for angle in (math.pi / 4 * turn for turn in range(8)))
"""Directions in which a ground is looked at around a place."""


class Ground(ABC):
    """One kind of ground. ``xy`` is (N, ..., 2) [m]; row n belongs to environment n."""

    friction: float = 1.0
    flat: ClassVar[bool] = False
    """True if it is z = 0 everywhere."""

    @property
    def title(self) -> str:
        """Title for people, such as "stairs up, 10 cm"."""
        return type(self).__name__

    @abstractmethod
    def height(self, xy: Array) -> Array:
        """Height of the ground [m], (N, ...)."""

    @abstractmethod
    def build(self, spec: Any) -> list[Any]:
        """Add its geoms to the world of ``spec``, a ``mujoco.MjSpec``, and return them.

        Whoever lays it decides their names, friction and contact.
        """

    def normal(self, xy: Array) -> Array:
        """Unit vector out of the ground, (N, ..., 3)."""
        lib, (x, y) = library(xy), (xy[..., 0], xy[..., 1])
        rise_x = (self._at(x + NEAR, y) - self._at(x - NEAR, y)) / (2.0 * NEAR)
        rise_y = (self._at(x, y + NEAR) - self._at(x, y - NEAR)) / (2.0 * NEAR)
        length = lib.sqrt(rise_x**2 + rise_y**2 + 1.0)
        return lib.stack((-rise_x / length, -rise_y / length, 1.0 / length), -1)

    def tilt(self, xy: Array) -> Array:
        """The shortest turn of something upright that then stands square on the ground, (N, ..., 4), w x y z."""
        lib, normal = library(xy), self.normal(xy)
        w = lib.sqrt((1.0 + normal[..., 2]) / 2.0)
        return lib.stack((w, -normal[..., 1] / (2.0 * w), normal[..., 0] / (2.0 * w), 0.0 * w), -1)

    def above(self, pos: Array) -> Array:
        """Height of ``pos`` (N, ..., 3) above the ground under it [m], (N, ...)."""
        return pos[..., 2] - self.height(pos[..., :2])

    def base_height(self, pos: Array) -> Array:
        """Height of bases at ``pos`` (N, 3) above the ground that carries them, square to it [m], (N,).

        Falls are told by it.
        """
        return self.above(pos) * self.normal(pos[..., :2])[..., 2]

    def higher(self, xy: Array, reach: float) -> Array:
        """Largest rise of the ground within ``reach`` [m] around ``xy``, at least 0 [m], (N, ...)."""
        here = self.height(xy)
        return functools.reduce(library(xy).maximum, self._around(xy, reach), here) - here

    def lie(self, xy: Array, reach: float) -> Array:
        """Unit normal of the plane that lies best on the ground ``reach`` [m] around ``xy``, (N, ..., 3)."""
        lib, around = library(xy), self._around(xy, reach)
        share = 2.0 / (reach * len(TURNS))
        rise_x, rise_y = (sum(share * turn[axis] * z for turn, z in zip(TURNS, around, strict=True)) for axis in (0, 1))
        length = lib.sqrt(rise_x**2 + rise_y**2 + 1.0)
        return lib.stack((-rise_x / length, -rise_y / length, 1.0 / length), -1)

    def scan(self, points: Array, pos: Array, yaw: Array) -> Array:
        """Noise-free readings of a height sensor: height of ``pos`` (N, 3) above the ground at each point [m], (N, P).

        ``points`` (P, 2) [m] are from ``pos``, turned by ``yaw`` (N,) [rad].
        """
        lib, (px, py) = library(pos), (points[:, 0], points[:, 1])
        cos, sin = lib.cos(yaw)[:, None], lib.sin(yaw)[:, None]
        return pos[:, 2:] - self._at(pos[:, :1] + cos * px - sin * py, pos[:, 1:2] + sin * px + cos * py)

    def origin(self, env_ids: Array, offset: Array = 0.0) -> Array:
        """Starting points of environments ``env_ids`` (n,), on the ground ``offset`` (n, 2) from the middle [m], (n,
        3)."""
        lib = library(env_ids)
        xy = 0.0 * lib.stack((env_ids, env_ids), -1) + offset if isinstance(offset, float) else offset
        return lib.stack((xy[:, 0], xy[:, 1], self.height(xy)), -1)

    def under(self, world: Any) -> Ground:
        """The ground of the environments of ``world``: itself, unless it has tiles, among which they move."""
        return self

    def begin(self) -> None:  # noqa: B027
        """Draw anew what is drawn about environments, from the generator of their world."""

    def restart(self, env_ids: Array) -> None:  # noqa: B027
        """Environments ``env_ids`` (n,) begin an episode; their robots are put on the ground next."""

    def keep(self, position: Array) -> None:  # noqa: B027
        """Keep the bases of all environments on the ground: ``position`` (N, 2) [m] may be changed in place."""

    def state_dict(self) -> dict[str, Any]:
        """State of a changing ground for checkpoints."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where :meth:`state_dict` was."""
        assert not state

    def _at(self, x: Array, y: Array) -> Array:
        return self.height(library(x).stack((x, y), -1))

    def _around(self, xy: Array, reach: float) -> list[Array]:
        """Heights ``reach`` [m] from ``xy`` in the directions of :data:`TURNS`."""
        return [self._at(xy[..., 0] + reach * cos, xy[..., 1] + reach * sin) for cos, sin in TURNS]


@dataclass(frozen=True, kw_only=True)
class Plane(Ground):
    """Level ground at z = 0."""

    friction: float = 1.0
    flat: ClassVar[bool] = True

    def height(self, xy: Array) -> Array:
        """Zero [m], (N, ...)."""
        return 0.0 * xy[..., 0]

    def above(self, pos: Array) -> Array:
        """Height of ``pos`` (N, ..., 3), the third coordinate [m], (N, ...)."""
        return pos[..., 2] + 0.0

    def build(self, spec: Any) -> list[Any]:
        """Add an endless plane to the world of ``spec``."""
        return [_plane(spec)]


LEVEL = Plane()


@dataclass(frozen=True, kw_only=True)
class Slope(Ground):
    """A plane through the origin that rises along x by ``angle`` [rad]."""

    angle: float
    friction: float = 1.0

    def __post_init__(self) -> None:
        if not abs(self.angle) < math.pi / 2:
            raise UserError(f"a slope of {self.angle:g} rad: give an angle between -pi/2 and pi/2")

    @property
    def title(self) -> str:
        """For people, with the angle in degrees."""
        return f"Slope, {math.degrees(self.angle):.3g} degrees"

    def height(self, xy: Array) -> Array:
        """Height x tan(angle) [m], (N, ...)."""
        return float(np.tan(self.angle)) * xy[..., 0]

    def normal(self, xy: Array) -> Array:
        """Unit vector out of the slope, the same everywhere, (N, ..., 3)."""
        return _everywhere(xy, (-np.sin(self.angle), 0.0, np.cos(self.angle)))

    def tilt(self, xy: Array) -> Array:
        """Turn about y by minus the angle, the same everywhere, (N, ..., 4), w x y z."""
        return _everywhere(xy, (np.cos(self.angle / 2), 0.0, -np.sin(self.angle / 2), 0.0))

    def build(self, spec: Any) -> list[Any]:
        """Add an endless, tilted plane to the world of ``spec``."""
        return [_plane(spec, quat=self.tilt(np.zeros(2)))]


def _plane(spec: Any, **pose: Any) -> Any:
    from mujoco import mjtGeom

    return spec.worldbody.add_geom(type=mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 1.0], **pose)


def _everywhere(xy: Array, values: tuple[float, ...]) -> Array:
    """``values`` repeated at all ``xy``."""
    return library(xy).stack([0.0 * xy[..., 0] + float(value) for value in values], -1)


def library(array: Array) -> Any:
    """The module, numpy or torch, that ``array`` is of; torch is imported if it is."""
    return sys.modules[type(array).__module__.partition(".")[0]]
