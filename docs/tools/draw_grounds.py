"""Draw every kind of ground, as docs/ground.md shows them: ``python docs/tools/draw_grounds.py [NAME ...]``.

Writes docs/images/ground/NAME.jpg, 320 x 200 pixels, of each course and of each tile that trainings have.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from gaitway_sim2real.mujoco.camera import Camera
from gaitway_sim2real.mujoco.stage import set_stage
from gaitway_tasks.ground import Ground
from gaitway_tasks.robots.mjcf import add_ground
from gaitway_tasks.terrain import SubTerrain, read_ground
from gaitway_tasks.terrain.tile import Draws, Grid, Tile
from PIL import Image

OUT = Path(__file__).parents[1] / "images" / "ground"
SIZE = (320, 200)
DISTANCE = 10.0
"""Of the camera from the middle of a tile [m]."""
STEEP, SMOOTH, SIDE = (-32.0, -33.0), (62.0, -22.0), (-90.0, -8.0)
"""Azimuth and elevation of the camera [degrees]: vertical faces that it sees are in the shade; slopes are half in the
light; or the horizon shows what the ground is."""
VIEWS = {
    "course-rough": SMOOTH, "course-waves": SMOOTH, "course-slope": SIDE, "tile-random_uniform": SMOOTH,
    "tile-wave": SMOOTH, "tile-pyramid_slope": SMOOTH, "tile-inverted_pyramid_slope": SMOOTH,
}  # fmt: skip
"""Of pictures other than STEEP."""
COURSES = {
    "stairs-up": "stairs-up:0.15", "stairs-down": "stairs-down:0.15", "grid": "grid:0.1", "rough": "rough:0.1",
    "rubble": "rubble:0.12", "waves": "waves:0.3", "kerbs": "kerbs:0.15", "gap": "gap:0.4", "stones": "stones:0.2",
    "slope": "slope:15",
}  # fmt: skip
TILES = {
    "flat": {},
    "pyramid_stairs": {
        "step_height_range": (0.05, 0.23), "step_width": 0.3, "platform_width": 3.0, "border_width": 1.0,
    },
    "inverted_pyramid_stairs": {
        "step_height_range": (0.05, 0.23), "step_width": 0.3, "platform_width": 3.0, "border_width": 1.0,
    },
    "random_grid": {"grid_width": 0.45, "grid_height_range": (0.05, 0.2), "platform_width": 2.0},
    "random_uniform": {"noise_range": (0.02, 0.1), "noise_step": 0.02, "border_width": 0.25},
    "pyramid_slope": {"slope_range": (0.0, 0.4), "platform_width": 2.0, "border_width": 0.25},
    "inverted_pyramid_slope": {"slope_range": (0.0, 0.4), "platform_width": 2.0, "border_width": 0.25},
    "wave": {"amplitude_range": (0.1, 0.4), "num_waves": 4, "border_width": 0.5},
    "discrete_obstacles": {
        "obstacle_height_range": (0.05, 0.2), "obstacle_width_range": (0.3, 1.2), "num_obstacles": 60,
        "platform_width": 2.0, "border_width": 0.5,
    },
    "stepping_stones": {
        "stone_height_max": 0.02, "stone_width_range": (0.3, 0.6), "stone_distance_range": (0.1, 0.3),
        "holes_depth": -1.0, "platform_width": 2.0, "border_width": 0.5,
    },
    "gap": {"gap_width_range": (0.1, 0.6), "platform_width": 3.0},
    "kerbs": {"kerb_height_range": (0.05, 0.2)},
    "narrow_beams": {"beam_width_range": (0.3, 0.8)},
}  # fmt: skip
"""Parameters of each kind; the first of them are those of Isaac Lab's rough terrain."""


@dataclass(frozen=True, kw_only=True)
class Shown(Ground):
    """A tile as a height field, as trainings have it, in the middle of nothing."""

    tile: Tile

    def height(self, xy):
        raise NotImplementedError

    def build(self, spec):
        heights = self.tile.heights
        low, span = float(heights.min()), max(float(np.ptp(heights)), 1e-3)
        (width, length), (x, y) = heights.shape, self.tile.grid.size
        spec.add_hfield(
            name="tile", nrow=length, ncol=width, size=[x / 2, y / 2, span, 0.5], userdata=heights.T.ravel().tolist()
        )
        return [spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_HFIELD, hfieldname="tile", pos=[0.0, 0.0, low])]


def grounds() -> Iterator[tuple[str, Ground]]:
    """Names of pictures, and what they show."""
    for name, text in COURSES.items():
        yield f"course-{name}", read_ground(text)
    for name, params in TILES.items():
        tile = SubTerrain(kind=name, proportion=1.0, params=params).tile(0.7, Grid(size=(8.0, 8.0)), Draws(0))
        yield f"tile-{name}", Shown(tile=tile)


def draw(ground: Ground, view: tuple[float, float]) -> np.ndarray:
    """A picture with a block as large as a Go2, 0.6 x 0.3 x 0.4 m, in the middle."""
    spec = mujoco.MjSpec()
    add_ground(spec, ground)
    set_stage(spec)
    tile = getattr(ground, "tile", None)
    top = 0.0 if tile is None else tile.origin
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.3, 0.15, 0.2], pos=[0.0, 0.0, top + 0.2], rgba=[0.15, 0.43, 0.77, 1.0]
    )
    model = spec.compile()
    with Camera(model, SIZE) as camera:
        camera.camera.distance, (camera.camera.azimuth, camera.camera.elevation) = DISTANCE, view
        camera.look(model.qpos0, np.array([0.0, 0.0, 0.5 * top]))
        return camera.shoot()


def main() -> None:
    wanted = sys.argv[1:]
    OUT.mkdir(parents=True, exist_ok=True)
    for name, ground in grounds():
        if not wanted or name in wanted:
            path = OUT / f"{name}.jpg"
            Image.fromarray(draw(ground, VIEWS.get(name, STEEP))).save(path, quality=85, optimize=True)
            print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
