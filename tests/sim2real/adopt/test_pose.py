"""Default poses: found, given or in the file."""

from __future__ import annotations

import pytest
from adoptable_robots import adopted, dog, human, refusal, robot, spider, written
from gaitway_sim2real.adopt.standing import stands

KEY = '<keyframe><key name="home" qpos="0 0 .4 1 0 0 0 {}"/></keyframe>'


HAND = """<body name="arm" pos="0 0 -.05"><joint name="shoulder" axis="0 1 0" range="-2 2"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 -.3" mass="1"/>
<body name="hand" pos="0 0 -.3"><joint name="elbow" axis="0 1 0" range="-2 2"/>
 <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.2" mass="1"/>{}{}</body></body>"""
FINGER = """<body name="{0}" pos="0 {1} -.2"><joint name="{0}_joint" axis="0 1 0" range="-1 1"/>
<geom size=".01" pos="0 0 -.05" mass=".2"/></body>"""
ARM = robot(
    HAND.format(FINGER.format("left", 0.03), FINGER.format("right", -0.03)),
    joints=("shoulder", "elbow", "left_joint", "right_joint"),
)


def test_six_legs_that_stand_sideways(tmp_path):
    found, _ = adopted(tmp_path, written(tmp_path, spider()))
    assert found.foot_names == tuple(f"{side}{row}_tibia_foot" for row in range(3) for side in "lr")
    assert not stands(found)[1]


def test_two_legs_with_flat_feet(tmp_path):
    found, lines = adopted(tmp_path, written(tmp_path, human()))
    assert found.foot_names == ("left_ankle", "right_ankle")
    pitch = dict(zip(found.joint_names, found.default_joint_pos, strict=True))
    legs = [pitch[f"left_{joint}"] for joint in ("hip_pitch", "knee", "ankle_pitch")]
    assert legs[1] > 0.2 and sum(legs) == pytest.approx(0.0, abs=0.01), "knees bent, soles flat"
    assert any("a policy does" in line for line in lines)


def test_the_files_own_pose_is_taken_if_it_stands(tmp_path):
    found, _ = adopted(tmp_path, written(tmp_path, dog(end=KEY.format("0 .5 -1 " * 4))))
    assert found.default_joint_pos == (0.0, 0.5, -1.0) * 4
    (tmp_path / "bad").mkdir()
    found, lines = adopted(tmp_path / "bad", written(tmp_path, dog(end=KEY.format("0 .5 -1 0 .5 1 " * 2))))
    assert found.default_joint_pos[2] != -1.0 and any("keyframe" in line for line in lines)


def test_a_given_pose_and_given_gains_are_taken(tmp_path):
    told = {"FL_knee_joint": -0.9}
    found, _ = adopted(tmp_path, written(tmp_path, dog()), pose=told, gains={".*_knee_joint": (30.0, 1.0)})
    values = dict(zip(found.joint_names, found.default_joint_pos, strict=True))
    assert values["FL_knee_joint"] == values["FR_knee_joint"] == -0.9 and values["RL_knee_joint"] == 0.9
    laws = dict(zip(found.joint_names, found.joint_actuators, strict=True))
    assert (laws["RR_knee_joint"].stiffness, laws["RR_knee_joint"].damping) == (30.0, 1.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (dog(effort=2.0), ("too weak", "knee", "3.", "2", "--effort")),
        (dog().replace('size=".2 .08 .05"', 'size=".2 .08 .4"'), ("'base'", "--pose")),
        (ARM, ("left", "right", "fingers", "--feet")),
    ],
)
def test_robots_that_cannot_stand_are_refused(tmp_path, text, words):
    said = refusal(tmp_path, text)
    assert all(word in said for word in words), said
