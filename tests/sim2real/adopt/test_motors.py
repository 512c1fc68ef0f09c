"""Torques and gains of motors."""

from __future__ import annotations

import pytest
from adoptable_robots import dog, refusal
from gaitway_sim2real.adopt import motors, pose
from gaitway_sim2real.adopt.feet import find_feet
from gaitway_sim2real.adopt.reading import read_tree
from gaitway_sim2real.adopt.stance import Stance
from gaitway_tasks.robots import ROBOTS


@pytest.mark.parametrize("name", ["anymal-b", "anymal-c", "a1", "go1", "go2", "g1-29dof", "h1"])
def test_the_legs_gains_are_about_those_of_our_robots(name):
    """ANYmal's are those of the preset cpu, with which it is trained."""
    ours = ROBOTS[name]
    tree = read_tree(ours.mjcf, [])
    stance = Stance(tree, find_feet(tree)[0])
    legs = pose.find_legs(stance)
    stance.put(dict(zip(ours.joint_names, ours.default_joint_pos, strict=True)))
    efforts = {joint: law.effort_limit for joint, law in zip(ours.joint_names, ours.joint_actuators, strict=True)}
    found, _ = motors.find_gains(stance, legs, efforts, dict.fromkeys(ours.joint_names, 0.0))
    known = {joint: law.stiffness for joint, law in zip(ours.joint_names, ours.joint_actuators, strict=True)}
    for joint, gain in found.items():
        if gain.part == "leg":
            wanted = 80.0 if name.startswith("anymal") else known[joint]
            assert wanted / 1.5 <= gain.kp <= 1.5 * wanted, joint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (dog(effort=None), ("FL_knee_joint", "RR_hip_joint", "--effort")),
        (dog(effort=5000.0), ("5000 N m", "--effort")),
    ],
)
def test_torques_that_are_missing_or_absurd_are_asked_for(tmp_path, text, words):
    said = refusal(tmp_path, text)
    assert all(word in said for word in words), said
