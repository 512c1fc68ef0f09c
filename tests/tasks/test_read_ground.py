"""Grounds as the command line writes them."""

import math

import pytest
from gaitway_files.errors import UserError
from gaitway_tasks.ground import Slope
from gaitway_tasks.terrain import COURSES, Course, read_ground, write_ground


@pytest.mark.parametrize(
    ("text", "ground"),
    [
        ("stairs-up:0.10", Course(name="stairs-up", number=0.1)),
        ("stairs:0.1,tread=0.25", Course(name="stairs-up", number=0.1, tread=0.25)),
        ("grid:0.1,seed=3,friction=0.6", Course(name="grid", number=0.1, seed=3, friction=0.6)),
        ("slope:15", Slope(angle=math.radians(15))),
        ("slope:-5", Slope(angle=math.radians(-5))),
    ],
)
def test_a_ground_is_read_and_written(text, ground):
    assert read_ground(text) == ground
    again = read_ground(write_ground(ground))
    assert again.title == ground.title and again == ground


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("", "NAME:NUMBER"),
        ("stairs-up", "stairs-up:0.10"),
        ("moon:1", "stones"),
        ("grid:ten", "NAME:NUMBER"),
        ("grid:nan", "from 0 to 0.3 m"),
        ("grid:-0.1", "from 0 to 0.3 m"),
        ("stairs-up:10", "from 0 to 0.3 m"),
        ("stairs-up:0.1,tread=3", "from 0.15 to 1 m"),
        ("grid:0.1,seed=1.5", "whole number"),
        ("grid:0.1,seed=-1", "from 0 to 4294967295"),
        ("grid:0.1,seed=inf", "whole number"),
        ("grid:0.1,friction=0", "above 0"),
        ("grid:0.1,friction=nan", "above 0"),
        ("grid:0.1,depth=2", "tread, seed, friction"),
        ("slope:90", "between -pi/2 and pi/2"),
        ("slope:15,seed=1", "NAME:NUMBER"),
        ("slope:inf", "NAME:NUMBER"),
    ],
)
def test_what_is_no_ground_is_refused_with_the_fix(text, fix):
    with pytest.raises(UserError, match=fix):
        read_ground(text)


@pytest.mark.parametrize("name", COURSES)
def test_every_course_is_made_at_its_largest_number(name):
    assert Course(name=name, number=COURSES[name].most).tile.heights.shape == (81, 81)
