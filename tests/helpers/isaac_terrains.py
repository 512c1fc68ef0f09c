"""Our tiles against those of ``isaaclab.terrains``, from the same seeds; tests/peers runs it with each release."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gaitway_isaaclab.scene import generator_cfg, sub_terrain_cfg
from gaitway_tasks.terrain import SubTerrain, TerrainGenerator
from gaitway_tasks.terrain.heights import interpolate
from gaitway_tasks.terrain.tile import Draws, Grid, Tile
from isaaclab.terrains import TerrainGenerator as IsaacTerrainGenerator

STAIRS = {"step_height_range": (0.05, 0.23), "step_width": 0.3, "platform_width": 3.0, "border_width": 1.0}
SLOPE = {"slope_range": (0.0, 0.4), "platform_width": 2.0, "border_width": 0.25}
NARROW_SLOPE = {"slope_range": (0.1, 0.9), "platform_width": 0.5}
STEEP = {"step_height_range": (0.1, 0.3), "step_width": 0.45, "border_width": 0.0}
KINDS: dict[str, list[dict[str, Any]]] = {
    "flat": [{}],
    "pyramid_stairs": [STAIRS, STEEP],
    "inverted_pyramid_stairs": [STAIRS, STEEP],
    "random_grid": [
        {"grid_width": 0.45, "grid_height_range": (0.05, 0.2), "platform_width": 2.0},
        {"grid_width": 0.7, "grid_height_range": (0.0, 0.1)},
    ],
    "random_uniform": [
        {"noise_range": (0.02, 0.10), "noise_step": 0.02, "border_width": 0.25},
        {"noise_range": (-0.06, 0.06), "noise_step": 0.01},
    ],
    "pyramid_slope": [SLOPE, NARROW_SLOPE],
    "inverted_pyramid_slope": [SLOPE, NARROW_SLOPE],
    "wave": [
        {"amplitude_range": (0.0, 0.2), "num_waves": 4, "border_width": 0.25},
        {"amplitude_range": (0.1, 0.5), "border_width": 1.0},
    ],
    "discrete_obstacles": [
        {"obstacle_height_range": (0.05, 0.2), "obstacle_width_range": (0.4, 1.6), "num_obstacles": 40},
        {
            "obstacle_height_range": (0.02, 0.1), "obstacle_width_range": (0.3, 1.2), "num_obstacles": 100,
            "platform_width": 2.0, "border_width": 0.5,
        },
    ],
    "stepping_stones": [
        {"stone_height_max": 0.05, "stone_width_range": (0.25, 1.5), "stone_distance_range": (0.05, 0.3)},
        {
            "stone_height_max": 0.1, "stone_width_range": (0.4, 0.8), "stone_distance_range": (0.1, 0.4),
            "holes_depth": -1.0, "platform_width": 2.0, "border_width": 0.5,
        },
    ],
    "gap": [{"gap_width_range": (0.1, 0.8), "platform_width": 3.0}, {"gap_width_range": (0.2, 1.0)}],
}  # fmt: skip
"""Of each kind the parameters of Isaac Lab's rough terrain, where it has the kind, and others."""
OWN = {"kerbs": {"kerb_height_range": (0.03, 0.15)}, "narrow_beams": {"beam_width_range": (0.3, 1.0)}}
CASES = [(kind, number) for kind, cases in KINDS.items() for number in range(len(cases))]
SQUARE = {"random_grid"}  # its tiles are


def seeded(seed: int) -> None:
    np.random.seed(seed)
    torch.manual_seed(seed)


def surface(mesh: Any, points: np.ndarray) -> np.ndarray:
    """The highest point of ``mesh`` over each of ``points`` (P, 2) [m], (P,); minus infinity where there is none."""
    a, b, c = np.moveaxis(np.asarray(mesh.triangles, float), 1, 0)
    (ux, uy), (vx, vy) = (b - a)[:, :2].T, (c - a)[:, :2].T
    area = ux * vy - uy * vx
    lies = np.abs(area) > 1e-9
    a, b, c, ux, uy, vx, vy, area = (each[lies] for each in (a, b, c, ux, uy, vx, vy, area))
    x, y = points[:, :1] - a[:, 0], points[:, 1:] - a[:, 1]
    s, t = (x * vy - y * vx) / area, (ux * y - uy * x) / area
    inside = (s >= -1e-9) & (t >= -1e-9) & (s + t <= 1 + 1e-9)
    return np.where(inside, a[:, 2] + s * (b - a)[:, 2] + t * (c - a)[:, 2], -np.inf).max(1)


def ground(tile: Tile, points: np.ndarray) -> np.ndarray:
    """The highest top of the tile's boxes over each of ``points`` (P, 2) [m], or its height between grid points."""
    x, y = points.T
    if tile.boxes is None:
        u, v = (
            each / tile.grid.horizontal_scale + (n - 1) / 2 for each, n in zip((x, y), tile.grid.shape, strict=True)
        )
        return interpolate(tile.heights.ravel(), 0, u, v, tile.grid.shape[1])
    low_x, high_x, low_y, high_y, _, top = tile.boxes.T
    over = (x[:, None] > low_x) & (x[:, None] < high_x) & (y[:, None] > low_y) & (y[:, None] < high_y)
    return np.where(over, top, -np.inf).max(1)


def compare(mesh: Any, middle: np.ndarray, tile: Tile, kind: str) -> None:
    """``mesh`` around ``middle`` (2,) [m] has the heights of ``tile``, over its grid and between."""
    if tile.boxes is None:
        heights = np.asarray(mesh.vertices)[:, 2].reshape(tile.heights.shape)
        np.testing.assert_allclose(tile.heights, heights, rtol=0, atol=1e-6)
    half = np.array(tile.grid.size) / 2 - 0.01
    points = np.random.default_rng(0).uniform(-half, half, (200, 2))
    theirs, ours = surface(mesh, points + middle), ground(tile, points)
    if kind == "gap":  # Isaac Lab's has no floor
        assert (np.isinf(theirs) == (ours == -1.0)).all() and np.isinf(theirs).any()
        theirs = np.where(np.isinf(theirs), -1.0, theirs)
    steepest = 0.0 if tile.boxes is not None else np.ptp(tile.heights) / tile.grid.horizontal_scale
    rounding = 3e-7 * steepest  # its vertices are float32, in x and y too
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6 + rounding)


def isaac_tile(sub: SubTerrain, difficulty: float, size: tuple[float, float]) -> tuple[Any, np.ndarray]:
    """Mesh and origin of Isaac Lab, which has the corner of a tile at (0, 0)."""
    import trimesh

    cfg = sub_terrain_cfg(sub)
    cfg.size = size
    meshes, origin = cfg.function(difficulty, cfg)
    return trimesh.util.concatenate(meshes), origin


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_tiles_have_the_heights_of_isaac_lab(kind, number, origin_of):
    sub = SubTerrain(kind=kind, proportion=1.0, params=KINDS[kind][number])
    for seed, difficulty in enumerate((0.0, 0.37, 1.0)):
        for size in ((8.0, 8.0), (6.0, 8.0), (8.0, 6.0))[: 1 if kind in SQUARE or difficulty == 0.0 else 3]:
            seeded(seed)
            mesh, origin = isaac_tile(sub, difficulty, size)
            tile = sub.tile(difficulty, Grid(size=size), Draws(seed))
            compare(mesh, np.array(size) / 2, tile, kind)
            np.testing.assert_allclose(origin, [size[0] / 2, size[1] / 2, origin_of(tile)], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", OWN)
def test_kinds_of_ours_are_meshes_in_isaac_lab(kind):
    sub = SubTerrain(kind=kind, proportion=1.0, params=OWN[kind])
    mesh, origin = isaac_tile(sub, 0.5, (8.0, 8.0))
    tile = sub.tile(0.5, Grid(size=(8.0, 8.0)), Draws(0))
    compare(mesh, np.array([4.0, 4.0]), tile, kind)
    np.testing.assert_allclose(origin, [4.0, 4.0, tile.origin])


@pytest.mark.parametrize("own", [False, True])
def test_a_curriculum_is_the_same_map(own, origin_of):
    kinds = {kind: cases[0] for kind, cases in KINDS.items() if kind not in ("flat", "gap", "stepping_stones")}
    shares = [0.2, 0.2, 0.2, 0.2, 0.1, 0.1, 0.0, 0.0]
    if own:
        kinds, shares = {"flat": {}, **OWN, "wave": KINDS["wave"][0], "gap": KINDS["gap"][0]}, [1.0, 2.0, 1.0, 3.0, 1.0]
    generator = TerrainGenerator(
        sub_terrains={
            f"my {kind}": SubTerrain(kind=kind, proportion=share, params=params)
            for (kind, params), share in zip(kinds.items(), shares, strict=True)
        },
        num_rows=3,
        num_cols=8,
        border_width=5.0,
        slope_threshold=None,
        seed=7,
    )
    seeded(7)
    cfg = generator_cfg(generator, curriculum=True)
    assert cfg.seed == 7
    cfg.seed = None if own else 7  # without one Isaac Lab takes numpy's
    isaac = IsaacTerrainGenerator(cfg)
    tiles, columns = generator.tiles(), generator.columns()
    assert len(tiles) == 3 and {len(row) for row in tiles} == {8} and len(isaac.terrain_meshes) == 3 * 8 + 1
    origins = [[origin_of(tile) for tile in row] for row in tiles]
    np.testing.assert_allclose(isaac.terrain_origins[..., 2], origins, rtol=0, atol=1e-6)
    for row in range(3):
        for column in range(8):
            mesh, middle = isaac.terrain_meshes[3 * column + row], np.array([8.0 * row + 4.0, 8.0 * column + 4.0])
            compare(mesh, middle, tiles[row][column], generator.sub_terrains[columns[column]].kind)
