"""Trees of files."""

from __future__ import annotations

import pytest
from adoptable_robots import adopted, dog, refusal, robot, written
from gaitway_sim2real.adopt.standing import stands

OTHER = '<body name="cat" pos="1 0 1"><geom size=".1"/><body><joint/><geom size=".1"/></body></body>'


def test_a_base_whose_own_z_is_not_up_gets_the_files_axes(tmp_path):
    parts = dog().replace('<body name="base" pos="0 0 0.5">', '<body name="base" pos="0 0 .5" euler="1.570796 0 0">', 1)
    turned = parts.replace('type="box" size=".2 .08 .05"', 'type="box" size=".2 .05 .08"')
    for y in (0.07, -0.07):  # each hip turns back what the base is turned
        for x in (0.2, -0.2):
            turned = turned.replace(f'pos="{x} {y} 0">', f'pos="{x} 0 {-y}" euler="-1.570796 0 0">')
    found, _ = adopted(tmp_path, written(tmp_path, turned))
    assert list(found.mirrors) == ["left-right", "front-back"] and not stands(found)[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (dog(more=OTHER), ("2 robots", "'base'", "'cat'")),
        (dog().replace('axis="1 0 0" range="-0.8 0.8"', 'type="ball"', 1), ("'FL_hip_joint'", "axis")),
        (robot(""), ("no hinge",)),
        (
            dog().replace('mass=".2"', 'mass="0"', 1).replace('mass=".05"', 'mass="0"', 1),
            ("FL_shank", "<inertial>"),
        ),
    ],
)
def test_files_that_are_not_one_robot_are_refused(tmp_path, text, words):
    said = refusal(tmp_path, text)
    assert all(word in said for word in words), said
