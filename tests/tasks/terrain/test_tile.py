"""One tile: its heights, its boxes, and what does not fit on it."""

import numpy as np
import pytest
import torch
from gaitway_tasks.terrain import SubTerrain, TerrainGenerator
from gaitway_tasks.terrain.heights import interpolate
from gaitway_tasks.terrain.kinds import KINDS
from gaitway_tasks.terrain.tile import Draws, Grid, Tile, block, frame
from rays import height_of, world_of
from terrain_kinds import PARAMS

GRID = Grid(size=(8.0, 8.0))
STAIRS = {"step_height_range": (0.1, 0.1), "step_width": 0.3}


def tile(kind, difficulty=0.5, grid=GRID, seed=0, **params):
    return SubTerrain(kind=kind, proportion=1.0, params={**PARAMS[kind], **params}).tile(difficulty, grid, Draws(seed))


def test_points_are_around_the_middle():
    x, y = Grid(size=(1.0, 0.5), horizontal_scale=0.25).points()
    np.testing.assert_allclose(x, [-0.5, -0.25, 0.0, 0.25, 0.5])
    np.testing.assert_allclose(y, [-0.25, 0.0, 0.25])


def test_the_highest_box_is_the_height_and_edges_belong_to_it():
    grid = Grid(size=(1.0, 1.0), horizontal_scale=0.25)
    boxes = [*frame((1.0, 1.0), (0.4, 0.4), -1.0, 0.0), block((0.4, 0.4), -1.0, -0.3), [0.0, 0.5, 0.25, 0.5, -1.0, 0.2]]
    expected = np.zeros((5, 5))
    expected[2, 2], expected[2:, 3:] = -0.3, 0.2
    np.testing.assert_allclose(Tile.of_boxes(grid, boxes, 0.0).heights, expected)
    alone = Tile.of_boxes(grid, [block((0.4, 0.4), -0.7, 0.1)], 0.1).heights
    assert alone[2, 2] == 0.1 and alone.sum() == pytest.approx(0.1 - 24 * 0.7)  # the lowest bottom elsewhere


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_level_at_its_edge_and_follows_its_seed(kind):
    for grid in (GRID, Grid(size=(6.0, 6.0), horizontal_scale=0.05)):
        found, again = tile(kind, grid=grid), tile(kind, grid=grid)
        assert found.heights.shape == grid.shape and np.array_equal(found.heights, again.heights)
        edge = np.concatenate([found.heights[[0, -1]].ravel(), found.heights[:, [0, -1]].ravel()])
        assert np.abs(edge).max() == 0.0
        middle = found.heights[tuple(n // 2 for n in grid.shape)]
        assert found.origin == pytest.approx(middle) if found.boxes is not None else found.origin >= middle - 1e-9
    drawn = kind in ("random_grid", "random_uniform", "discrete_obstacles", "stepping_stones")
    assert drawn == (not np.array_equal(tile(kind).heights, tile(kind, seed=1).heights))


def test_kinds_of_ours():
    kerb = tile("kerbs", kerb_height_range=(0.1, 0.2)).heights
    np.testing.assert_allclose(np.unique(kerb), [0.0, 0.15])
    beam = tile("narrow_beams", 1.0, beam_width_range=(0.3, 0.9)).heights
    assert (beam[40] == 0.0).all() and (beam[:, 40] == 0.0).all()
    assert beam[10, 43] == pytest.approx(-0.5) and beam[10, 41] == 0.0
    assert tile("narrow_beams", 0.0, beam_width_range=(0.3, 0.9)).heights[10, 43] == 0.0


REFUSED = {
    "platform of 9 m.*do not fit on a tile of 8 x 8 m": ("pyramid_stairs", {"platform_width": 9.0}),
    "platform of 1 m.*do not fit": ("inverted_pyramid_stairs", {"step_width": 4.0, "platform_width": 1.0}),
    "holes=false, or --world isaaclab": ("pyramid_stairs", {"holes": True}),
    "random grid with holes": ("random_grid", {"holes": True}),
    "the tile needs a border": ("random_grid", {"grid_width": 0.5}),
    "gap of 4 m.*does not fit": ("gap", {"gap_width_range": (4.0, 4.0)}),
    r"border of 0\.05 m: it must be 0 or as wide as a cell, 0\.1 m": ("wave", {"border_width": 0.05}),
    "border of 4 m leaves nothing": ("pyramid_slope", {"border_width": 4.0}),
    "num_waves 0: at least one": ("wave", {"num_waves": 0}),
    r"steps of 0\.001 m.*0\.005 m at least": ("random_uniform", {"noise_step": 0.001}),
    r"obstacles from 0\.5 to 0\.5 m": ("discrete_obstacles", {"obstacle_width_range": (0.5, 0.5)}),
    "obstacles from 1 to 20 m": ("discrete_obstacles", {"obstacle_width_range": (1.0, 20.0)}),
    r"stones from 0\.02 to 0\.05 m": ("stepping_stones", {"stone_width_range": (0.02, 0.05)}),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_does_not_fit_is_refused(reason):
    kind, params = REFUSED[reason]
    with pytest.raises(ValueError, match=reason):
        tile(kind, **params)


def test_a_random_grid_is_square():
    with pytest.raises(ValueError, match="tile of 8 x 6 m: the tile must be square"):
        tile("random_grid", grid=Grid(size=(8.0, 6.0)))


WRONG = {
    "kind 'craters': use one of flat, pyramid_stairs": ("craters", {}),
    "no parameter 'hight': it takes step_height_range": ("pyramid_stairs", {**STAIRS, "hight": 1.0}),
    "'pyramid_stairs' lacks step_height_range, step_width": ("pyramid_stairs", {}),
    "step_width is nan: give numbers": ("pyramid_stairs", {**STAIRS, "step_width": float("nan")}),
    "step_width is 'wide': give numbers": ("pyramid_stairs", {**STAIRS, "step_width": "wide"}),
    "step_width is None: give numbers": ("pyramid_stairs", {**STAIRS, "step_width": None}),
    r"step_height_range is 0\.1: give the lowest and the highest": (
        "pyramid_stairs",
        {**STAIRS, "step_height_range": 0.1},
    ),
}


@pytest.mark.parametrize("reason", WRONG)
def test_wrong_parameters_are_told(reason):
    kind, params = WRONG[reason]
    with pytest.raises(ValueError, match=reason):
        SubTerrain(kind=kind, proportion=1.0, params=params)


def test_shares_decide_the_columns_and_rows_the_difficulty():
    stairs, slope = (
        SubTerrain(kind=kind, proportion=share, params=PARAMS[kind])
        for kind, share in (("pyramid_stairs", 3.0), ("pyramid_slope", 1.0))
    )
    generator = TerrainGenerator(sub_terrains={"s": stairs, "h": slope}, num_rows=3, num_cols=4, size=(6.0, 6.0))
    assert generator.columns() == ["s", "s", "s", "h"]
    tiles = generator.tiles()
    for column in range(4):
        assert sorted(row[column].origin for row in tiles) == [row[column].origin for row in tiles]
    again = TerrainGenerator(**{**vars(generator), "seed": 0}).tiles()
    other = TerrainGenerator(**{**vars(generator), "seed": 1}).tiles()
    assert np.array_equal(again[1][2].heights, tiles[1][2].heights)
    assert not np.array_equal(other[1][2].heights, tiles[1][2].heights)


@pytest.mark.parametrize("convert", [np.asarray, torch.tensor])
def test_heights_between_points_are_those_of_a_height_field(convert):
    import mujoco

    rng = np.random.default_rng(0)
    heights = rng.uniform(0.0, 1.0, (7, 5))
    heights[0, 0], heights[-1, -1] = 0.0, 1.0  # a compiler of MuJoCo stretches the data to 0 and 1
    spec = mujoco.MjSpec()
    spec.add_hfield(name="h", nrow=5, ncol=7, size=[0.3, 0.2, 1.0, 0.1], userdata=heights.T.ravel().tolist())
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_HFIELD, hfieldname="h")
    x, y = rng.uniform(-0.29, 0.29, 300), rng.uniform(-0.19, 0.19, 300)
    u, v = x / 0.1 + 3.0, y / 0.1 + 2.0
    v[:100] = np.clip(np.floor(v[:100]) + (u[:100] % 1.0), 0.0, 3.999)  # on the diagonal
    y = (v - 2.0) * 0.1
    rays = height_of(world_of(spec), np.stack((x, y), 1))
    found = interpolate(convert(heights.ravel()), 0, convert(u), convert(v), 5)
    np.testing.assert_allclose(np.asarray(found), rays, atol=2e-6)
