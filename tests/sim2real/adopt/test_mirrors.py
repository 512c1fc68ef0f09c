"""Mirror images of a robot, and limits and names that have none."""

from __future__ import annotations

from adoptable_robots import adopted, dog, written
from gaitway_mujoco.mirrors import verify_mirrors


def test_names_without_a_scheme_are_mirrored_whole(tmp_path):
    text = dog()
    for leg, number in (("FL", "1"), ("FR", "10"), ("RL", "2"), ("RR", "100")):
        text = text.replace(f"{leg}_hip_joint", f"joint_{number}")
    found, _ = adopted(tmp_path, written(tmp_path, text))
    assert list(found.mirrors) == ["left-right", "front-back"]
    verify_mirrors(found)


def test_limits_that_are_no_mirror_images_leave_no_mirror(tmp_path):
    found, lines = adopted(tmp_path, written(tmp_path, dog(knee="-2.5 -.2")))
    assert list(found.mirrors) == ["left-right"]
    assert any("no mirror front-back" in line and "knee" in line for line in lines)
