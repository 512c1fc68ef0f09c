"""Grounds that judge: one tile with faces as steep as they are, stairs of boxes for example, by name and one number."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from gaitway_files.errors import UserError

from ..ground import Array, Ground, Slope, library
from .generator import SubTerrain
from .heights import interpolate
from .tile import Draws, Grid, Tile, frame, tops

SIZE = 8.0
"""Side of a course [m]."""
AROUND = 60.0
"""Distance of the level ground's edge from the middle of a course [m]."""
FINE = 0.02
"""Distance of the points at which the heights of boxes are looked up [m]."""
MAX_FRICTION = 10.0
OPTIONS = ("tread", "seed", "friction")
"""Options of a course, by name after its number."""
ROUNDING = 1e-9
"""Added to a number: 0.3 m in cells of 0.1 m would be 2 cells, since kinds cut off broken parts [m]."""
FOOTPRINT = 0.3
"""Distance from the middle of a robot at which the ground's slope under it is measured [m]."""
UNDER = (np.stack(np.meshgrid(np.arange(6), np.arange(6)), -1).reshape(-1, 2) - 2.5) * (FOOTPRINT / 3)
"""Points, evenly spaced under a robot, whose mean height is that of the ground that carries it [m], (36, 2)."""


@dataclass(frozen=True, kw_only=True)
class CourseKind:
    """One kind of course; ``params`` are those of its sub-terrain, of the number that it is named with and a tread."""

    sub_terrain: str
    params: Callable[[float, float], dict[str, Any]]
    title: str
    """Title, such as "stairs up"."""
    number: str
    """Meaning of the number."""
    most: float
    """The largest number [m]."""


def _stairs(height: float, tread: float) -> dict[str, Any]:
    return {"step_height_range": (height, height), "step_width": tread, "platform_width": 2.4, "border_width": 1.0}


def _stones(width: float, tread: float) -> dict[str, Any]:
    return {
        "stone_height_max": 0.02, "stone_width_range": (0.5, 0.5), "stone_distance_range": (width, width),
        "holes_depth": -1.0, "platform_width": 2.0, "border_width": 0.5,
    }  # fmt: skip


COURSES: dict[str, CourseKind] = {
    "stairs-up": CourseKind(
        sub_terrain="inverted_pyramid_stairs", params=_stairs, title="Stairs up", number="height of a step", most=0.3
    ),
    "stairs-down": CourseKind(
        sub_terrain="pyramid_stairs", params=_stairs, title="Stairs down", number="height of a step", most=0.3
    ),
    "grid": CourseKind(
        sub_terrain="random_grid",
        params=lambda height, _: {"grid_width": 0.45, "grid_height_range": (height, height), "platform_width": 2.0},
        title="Random grid",
        number="height of a cell, up or down, at most",
        most=0.3,
    ),
    "rough": CourseKind(
        sub_terrain="random_uniform",
        params=lambda height, _: {"noise_range": (0.0, height), "noise_step": 0.01, "border_width": 0.25},
        title="Rough ground",
        number="height of a point, at most",
        most=0.3,
    ),
    "rubble": CourseKind(
        sub_terrain="discrete_obstacles",
        params=lambda height, _: {
            "obstacle_height_range": (height, height), "obstacle_width_range": (0.3, 1.2), "num_obstacles": 60,
            "platform_width": 2.0, "border_width": 0.5,
        },
        title="Rubble",
        number="height or depth of a block",
        most=0.3,
    ),
    "waves": CourseKind(
        sub_terrain="wave",
        params=lambda height, _: {"amplitude_range": (height, height), "num_waves": 4, "border_width": 0.5},
        title="Waves",
        number="height from trough to crest along one axis",
        most=0.5,
    ),
    "kerbs": CourseKind(
        sub_terrain="kerbs",
        params=lambda height, _: {"kerb_height_range": (height, height)},
        title="Kerbs",
        number="height of a kerb",
        most=0.3,
    ),
    "gap": CourseKind(
        sub_terrain="gap",
        params=lambda width, _: {"gap_width_range": (width, width), "platform_width": 3.0},
        title="Gap",
        number="width",
        most=1.0,
    ),
    "stones": CourseKind(
        sub_terrain="stepping_stones",
        params=_stones,
        title="Stepping stones",
        number="distance between stones",
        most=0.5,
    ),
}  # fmt: skip
"""Courses by name."""


class _Draws(Draws):
    """Draws by numpy alone: validation runs without torch."""

    def uniform(self, low: float, high: float, count: int) -> np.ndarray:
        return self.numpy.uniform(low, high, count)


@dataclass(frozen=True, kw_only=True)
class Course(Ground):
    """A tile of one kind in the middle of level ground; robots start in its middle and cross it in any direction."""

    name: str
    """One of :data:`COURSES`."""
    number: float
    """Number of the course, with the meaning and the unit that its kind states."""
    tread: float = 0.3
    """Length of a step, for stairs [m]."""
    seed: int = 0
    friction: float = 1.0
    ramps: bool = False
    """True if the faces of boxes are ramps of 0.1 m, as on the tiles of a training in MuJoCo."""

    def __post_init__(self) -> None:
        if self.name not in COURSES:
            raise UserError(f"course {self.name!r}: use one of {', '.join(COURSES)}")
        kind = COURSES[self.name]
        if not 0.0 <= self.number <= kind.most:
            raise UserError(f"{self.name}:{self.number:g}: its {kind.number} is from 0 to {kind.most:g} m")
        if not 0.15 <= self.tread <= 1.0:
            raise UserError(f"a tread of {self.tread:g} m: steps are from 0.15 to 1 m long")
        if not 0.0 < self.friction <= MAX_FRICTION:
            raise UserError(f"a friction of {self.friction:g}: it must be above 0, and {MAX_FRICTION:g} at most")
        if not 0 <= self.seed < 2**32:
            raise UserError(f"seed {self.seed}: it is a whole number from 0 to 4294967295")

    @property
    def title(self) -> str:
        """Title for people."""
        return f"{COURSES[self.name].title}, {100 * self.number:.3g} cm"

    @property
    def half(self) -> float:
        """Distance from its middle to its edge [m]."""
        return SIZE / 2

    @functools.cached_property
    def tile(self) -> Tile:
        """The tile that robots are judged on, with its heights [m] and, of some kinds, boxes."""
        kind, number = COURSES[self.name], self.number + ROUNDING * (self.number > 0.0)
        sub = SubTerrain(kind=kind.sub_terrain, proportion=1.0, params=kind.params(number, self.tread))
        found = sub.tile(0.0, Grid(size=(SIZE, SIZE)), _Draws(self.seed))
        return replace(found, boxes=None) if self.ramps else found

    @functools.cached_property
    def _map(self) -> tuple[np.ndarray, float]:
        """Heights to look up, and their distance: those of boxes at the nearest point, others between points."""
        if self.tile.boxes is None:
            return self.tile.heights, self.tile.grid.horizontal_scale
        fine = replace(self.tile.grid, horizontal_scale=FINE)
        return tops(self.tile.boxes, *fine.points()), FINE

    def height(self, xy: Array) -> Array:
        """Height of the course, 0 around it [m], (N, ...)."""
        if not isinstance(xy, np.ndarray):
            import torch

            return torch.from_numpy(self.height(xy.numpy().astype(float))).to(xy.dtype)
        heights, scale = self._map
        u, v = (xy[..., axis] / scale + (heights.shape[axis] - 1) / 2 for axis in (0, 1))
        inside = (u >= 0) & (v >= 0) & (u < heights.shape[0] - 1) & (v < heights.shape[1] - 1)
        u, v = np.where(inside, u, 0.0), np.where(inside, v, 0.0)
        if self.tile.boxes is None:
            found = interpolate(heights.ravel(), 0, u, v, heights.shape[1])
        else:
            found = heights[np.rint(u).astype(int), np.rint(v).astype(int)]
        return np.where(inside, found, 0.0)

    def normal(self, xy: Array) -> Array:
        """Normal of the ground that a robot at ``xy`` stands on; a riser has none of its own."""
        return self.lie(xy, FOOTPRINT)

    def base_height(self, pos: Array) -> Array:
        """Above the mean of what is under the robot: a base passes over the next riser, a high cell or a hole."""
        lib = library(pos)
        x, y = (pos[..., axis, None] + lib.asarray(UNDER[:, axis]) for axis in (0, 1))
        return pos[..., 2] - self._at(x, y).mean(-1)

    def origin(self, env_ids: Array, offset: Array = 0.0) -> Array:
        """Where environments start [m], (n, 3): as :class:`Ground` has it, but no lower than the start of the tile."""
        found = super().origin(env_ids, offset)
        found[:, 2] = found[:, 2].clip(self.tile.origin)
        return found

    def build(self, spec: Any) -> list[Any]:
        """Add boxes or a height field, and the level ground around them, to the world of ``spec``."""
        from mujoco import mjtGeom

        tile, add = self.tile, spec.worldbody.add_geom
        spec.stat.extent = SIZE / 2  # the ground around is larger, and a camera would cut off what is near
        low = float(tile.heights.min())
        boxes = np.array(frame((2 * AROUND, 2 * AROUND), tile.grid.size, min(low, 0.0) - 1.0, 0.0))
        if tile.boxes is not None:
            boxes = np.concatenate([boxes, tile.boxes])
        geoms = [
            add(
                type=mjtGeom.mjGEOM_BOX,
                pos=[(x + to_x) / 2, (y + to_y) / 2, (bottom + top) / 2],
                size=[(to_x - x) / 2, (to_y - y) / 2, (top - bottom) / 2],
            )
            for x, to_x, y, to_y, bottom, top in boxes.tolist()
        ]
        if tile.boxes is None:
            span = max(float(tile.heights.max()) - low, 1e-3)
            (width, length), (size_x, size_y) = tile.heights.shape, tile.grid.size
            spec.add_hfield(
                name="course", nrow=length, ncol=width, size=[size_x / 2, size_y / 2, span, 1.0],
                userdata=tile.heights.T.ravel().tolist(),
            )  # fmt: skip
            geoms.append(add(type=mjtGeom.mjGEOM_HFIELD, hfieldname="course", pos=[0.0, 0.0, low]))
        return geoms


def write_ground(ground: Course | Slope) -> str:
    """Text that :func:`read_ground` reads back as ``ground``."""
    if isinstance(ground, Slope):
        return f"slope:{math.degrees(ground.angle)!r}"
    more = (f"{field.name}={getattr(ground, field.name)!r}" for field in fields(Course) if field.name in OPTIONS)
    return ",".join([f"{ground.name}:{ground.number!r}", *more])


def read_ground(text: str) -> Course | Slope:
    """The ground of ``--terrain``: ``stairs-up:0.10``, ``grid:0.1,seed=3``, ``stairs-up:0.1,tread=0.25``, ``slope:15``.

    Numbers are in metres, of a slope in degrees. Raises :class:`UserError` for others.
    """
    name, _, rest = text.partition(":")
    number, *more = rest.split(",")
    known = f"write NAME:NUMBER with one of {', '.join(COURSES)} [m], or slope [degrees], as in stairs-up:0.10"
    try:
        value = float(number)
        options = {key: float(given) for key, _, given in (each.partition("=") for each in more)}
    except ValueError:
        raise UserError(f"terrain {text!r}: {known}") from None
    if name == "slope" and not options and math.isfinite(value):
        return Slope(angle=math.radians(value))
    if name == "stairs":
        name = "stairs-up"
    if name not in COURSES or not options.keys() <= set(OPTIONS):
        raise UserError(f"terrain {text!r}: {known}; after a comma {', '.join(OPTIONS)} may follow, as in seed=3")
    seed = options.pop("seed", 0.0)
    if not seed.is_integer():
        raise UserError(f"terrain {text!r}: seed {seed:g} is no whole number")
    given: dict[str, Any] = options
    return Course(name=name, number=value, seed=int(seed), **given)
