"""Joints that are held still."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from adoptable_robots import adopted, dog, refusal, written

ARM = """<body name="arm" pos=".1 0 .06"><joint name="arm_yaw" axis="0 0 1"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 .3" mass=".5"/></body>"""


def test_an_arm_on_four_legs_is_held_unless_it_is_to_move(tmp_path):
    motor = '<motor joint="arm_yaw" ctrlrange="-5 5"/></actuator>'
    path = written(tmp_path, dog(on_base=ARM).replace("</actuator>", motor))
    found, lines = adopted(tmp_path, path)
    assert "arm_yaw" not in found.joint_names and any("held still: arm_yaw" in line for line in lines)
    (tmp_path / "again").mkdir()
    found, _ = adopted(tmp_path / "again", path, moved=("arm_.*",))
    assert found.joint_names[-1] == "arm_yaw"


def test_a_leg_whose_knee_follows_another_joint_is_refused(tmp_path):
    tie = '<equality><joint joint1="FL_knee_joint" joint2="FL_thigh_joint" polycoef="0 -2 0 0 0"/></equality>'
    said = refusal(tmp_path, dog(end=tie))
    assert "FL_knee_joint" in said and "<equality>" in said


def test_joints_that_the_user_holds_stay_where_they_are_put(tmp_path):
    pose = {f"{leg}_hip_joint": 0.1 if leg[1] == "L" else -0.1 for leg in ("FL", "FR", "RL", "RR")}
    found, lines = adopted(tmp_path, written(tmp_path, dog()), held=(".*_hip_joint",), pose=pose)
    assert len(found.joint_names) == 8 and any("as --hold says" in line for line in lines)
    assert list(found.mirrors) == ["left-right", "front-back"]
    model = mujoco.MjModel.from_xml_path(str(found.mjcf))
    assert abs(model.body("FL_thigh").quat[1]) == pytest.approx(np.sin(0.05), abs=1e-6)


def test_joints_off_the_legs_that_follow_others_are_held_without_a_choice(tmp_path):
    tie = '<equality><joint joint1="arm_yaw" joint2="FL_hip_joint" polycoef="0 1 0 0 0"/></equality>'
    _, lines = adopted(tmp_path, written(tmp_path, dog(on_base=ARM, end=tie)), moved=("arm_yaw",))
    (line,) = (line for line in lines if line.startswith("held still: arm_yaw"))
    assert "--move" not in line
