"""Feet of a tree, found or made."""

from __future__ import annotations

import re

import pytest
from adoptable_robots import adopted, dog, refusal, robot, written
from gaitway_sim2real.adopt.standing import stands

WHEEL = """<body name="w{n}" pos="{x} {y} -.1"><joint name="j{n}" axis="0 1 0"/>
<geom type="cylinder" size=".06 .02" euler="1.5708 0 0" mass=".5"/></body>"""
WHEELS = "".join(
    WHEEL.format(n=n, x=x, y=y) for n, (x, y) in enumerate([(0.2, 0.1), (0.2, -0.1), (-0.2, 0.1), (-0.2, -0.1)])
)
HEAD = '<body name="head" pos=".3 0 .1"><joint axis="0 0 1" range="-1 1"/><geom size=".05" mass=".1"/></body>'
BARE = re.sub(r"<geom[^>]*mass=\"(.5)\"/>", r'<inertial pos="0 0 0" mass="\1" diaginertia=".01 .01 .01"/>', WHEELS)


def test_shanks_that_end_in_nothing_get_feet(tmp_path):
    found, _ = adopted(tmp_path, written(tmp_path, dog(feet=False)))
    assert found.foot_names == tuple(f"{leg}_shank_foot" for leg in ("FL", "FR", "RL", "RR"))
    assert found.foot_height == pytest.approx(0.015, abs=1e-4)
    assert list(found.mirrors) == ["left-right", "front-back"]
    tilt, fallen = stands(found)
    assert tilt < 0.1 and not fallen


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (robot(WHEELS), ("'w0'", "wheel", "'j0'")),
        (robot(WHEELS.replace('"0 1 0"', '"0 1 0" range="-1000 1000"') + HEAD), ("'w0'", "wheel", "'j0'")),
        (robot(BARE), ("'w0'", "wheel", "'j0'")),
        (robot('<body name="tail"><joint/><geom size=".05" pos="-.3 0 0" mass="1"/></body>'), ("tail", "--feet")),
    ],
)
def test_limbs_that_are_no_legs_are_refused(tmp_path, text, words):
    said = refusal(tmp_path, text)
    assert all(word in said for word in words), said


BOOM = """<body name="boom" pos="-.25 0 0"><joint name="boom_joint" axis="0 1 0"/>
<geom type="capsule" size=".01" fromto="0 0 0 0 0 -.4" mass=".2"/></body>"""


def test_the_user_names_feet_where_another_limb_reaches_the_ground(tmp_path):
    text = dog(on_base=BOOM)
    feet = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
    assert "boom" in refusal(tmp_path, text)
    found, lines = adopted(tmp_path, written(tmp_path, text), feet=feet)
    assert found.foot_names == feet and any("held still: boom_joint" in line for line in lines)
