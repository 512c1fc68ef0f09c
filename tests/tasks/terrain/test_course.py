"""Courses by name: what they are in MuJoCo is what terms are told."""

import math

import mujoco
import numpy as np
import pytest
import torch
from gaitway_tasks.ground import Plane, Slope
from gaitway_tasks.terrain import COURSES, Course, read_ground
from rays import height_of, world_of

NUMBERS = {"waves": 0.2, "gap": 0.3, "stones": 0.1}
FACE = 0.0101
"""Distance from a face within which heights are those of one side or the other [m]."""


def course(name, **options):
    return Course(name=name, number=NUMBERS.get(name, 0.1), **options)


@pytest.mark.parametrize("name", COURSES)
def test_heights_are_those_of_mujoco(name):
    ground, spec = course(name, seed=3), mujoco.MjSpec()
    ground.build(spec)
    world = world_of(spec)
    points = np.concatenate([np.random.default_rng(0).uniform(-6.0, 6.0, (600, 2)), [[30.0, -50.0]]])
    if (boxes := ground.tile.boxes) is not None:
        faces = np.stack((boxes[:, :2].ravel(), boxes[:, 2:4].ravel()))
        points = points[np.abs(points[:, :, None] - faces).min((1, 2)) > FACE]
    rays = height_of(world, points)
    np.testing.assert_allclose(ground.height(points), rays, atol=1e-5)
    np.testing.assert_allclose(ground.height(torch.tensor(points)), rays, atol=1e-5)
    assert rays[-1] == 0.0 and len(points) > 100
    start = ground.origin(np.zeros(1))[0]
    assert start[2] >= height_of(world, start[None, :2])[0] - 1e-6
    np.testing.assert_allclose(ground.origin(torch.zeros(1)).numpy()[0], start, atol=1e-6)


def test_a_seed_is_a_course():
    for name, differs in (("grid", True), ("rough", True), ("rubble", True), ("stairs-up", False)):
        first, second = course(name).tile.heights, course(name, seed=1).tile.heights
        assert differs == (not np.array_equal(first, second))


def test_stairs_are_as_high_and_as_long_as_they_are_called():
    ground = read_ground("stairs-up:0.12,tread=0.35")
    assert ground == Course(name="stairs-up", number=0.12, tread=0.35)
    along = ground.height(np.stack((np.linspace(0.0, 4.0, 4001), np.zeros(4001)), 1))
    steps = np.flatnonzero(np.abs(np.diff(along)) > 1e-6)
    np.testing.assert_allclose(np.diff(along)[steps], 0.12)
    np.testing.assert_allclose(np.diff(steps) * 1e-3, 0.35, atol=0.021)
    assert along[-1] == 0.0 and along[0] == ground.tile.origin < 0.0
    assert ground.title == "Stairs up, 12 cm"


def test_words_of_a_ground():
    assert read_ground("slope:45") == Slope(angle=math.pi / 4)
    assert read_ground("stairs:0.1") == read_ground("stairs-up:0.1")
    assert read_ground("grid:0.1,seed=3") == Course(name="grid", number=0.1, seed=3)


WRONG = {
    "stairs-up": "write NAME:NUMBER with one of stairs-up",
    "moon:0.1": "'moon:0.1'.*one of stairs-up",
    "stairs-up:high": "as in stairs-up:0.10",
    "stairs-up:0.5": r"height of a step is from 0 to 0\.3 m",
    "stairs-up:nan": "from 0 to",
    "stairs-up:0.1,tread=3": "a tread of 3 m: steps are from",
    "stairs-up:0.1,step=3": "may follow",
    "slope:inf": "write NAME:NUMBER",
    "gap:-0.1": "gap:-0.1: its width is from 0 to 1 m",
}


@pytest.mark.parametrize("text", WRONG)
def test_other_words_are_refused(text):
    with pytest.raises(ValueError, match=WRONG[text]):
        read_ground(text)


@pytest.mark.parametrize("convert", [np.asarray, torch.tensor])
def test_how_much_higher_the_ground_around_is(convert):
    xy = convert([[0.0, 0.0], [1.0, 3.0]])
    np.testing.assert_allclose(Plane().higher(xy, 0.2), 0.0)
    np.testing.assert_allclose(Slope(angle=0.3).higher(xy, 0.2), 0.2 * np.tan(0.3), atol=1e-6)
    stairs = course("stairs-up")
    edge = float(np.abs(stairs.tile.boxes[-1, 1]))  # of the pit in the middle
    xy = convert([[edge - 0.1, 0.0], [edge - 0.25, 0.0], [6.0, 0.0]])
    np.testing.assert_allclose(stairs.higher(xy, 0.2), [0.1, 0.0, 0.0], atol=1e-6)


def test_numbers_of_whole_cells_are_not_cut_off():
    holes = Course(name="stones", number=0.3).tile.heights[8:25] < -0.5
    assert np.flatnonzero(holes.all(0))[:6].tolist() == [11, 12, 13, 19, 20, 21], "three cells between rows of stones"
    assert Course(name="rubble", number=0.29).tile.heights.max() == pytest.approx(0.29)
