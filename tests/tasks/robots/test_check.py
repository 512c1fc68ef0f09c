"""Every robot is held against itself and its model; the message has the field, the joint and both values."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import mujoco
import pytest
from gaitway_tasks.robots import ANYMAL_C, GO2, ROBOTS
from gaitway_tasks.robots.check import check_robot
from gaitway_tasks.robots.mjcf import ModelError, load_spec
from gaitway_tasks.robots.robot import Robot
from stand_bundle import make_stand_bundle

from gaitway.cli import main

FIRST = GO2.joint_names[0]
LOW, HIGH = GO2.joint_limits[0]
LEGS = next(iter(GO2.actuators))


@pytest.mark.parametrize("name", ROBOTS)
def test_our_own_have_no_fault(name):
    check_robot(ROBOTS[name])


def first(values: tuple, value: object) -> tuple:
    return (value, *values[1:])


def driven(**changes: float) -> Robot:
    return GO2.replace(actuators={**GO2.actuators, LEGS: replace(GO2.actuators[LEGS], **changes)})


@pytest.mark.parametrize(
    ("robot", "told"),
    [
        (GO2.replace(default_joint_pos=GO2.default_joint_pos[:-1]), ["default_joint_pos has 11", "joint_names has 12"]),
        (GO2.replace(joint_limits=GO2.joint_limits[1:]), ["joint_limits has 11"]),
        (GO2.replace(joint_names=first(GO2.joint_names, GO2.joint_names[1])), ["joint_names", GO2.joint_names[1]]),
        (GO2.replace(foot_names=first(GO2.foot_names, "paw")), ["foot_names", "'paw'"]),
        (GO2.replace(body_names=(*GO2.body_names, "tail")), ["body_names", "'tail'", GO2.body_names[-1]]),
        (GO2.replace(default_joint_pos=first(GO2.default_joint_pos, HIGH + 0.1)), [FIRST, f"{HIGH + 0.1:g}"]),
        (GO2.replace(default_joint_pos=first(GO2.default_joint_pos, 5.73)), [FIRST, "5.73", "degrees", "0.1 rad"]),
        (GO2.replace(joint_limits=first(GO2.joint_limits, (HIGH, LOW))), ["joint_limits", FIRST, "comes first"]),
        (
            GO2.replace(joint_limits=first(GO2.joint_limits, (LOW, HIGH + 1.0))),
            [FIRST, f"{HIGH + 1.0:g}", f"{HIGH:.4g}"],
        ),
        (GO2.replace(joint_limits=first(GO2.joint_limits, (LOW * 57.29578, HIGH * 57.29578))), [FIRST, "in degrees"]),
        (GO2.replace(init_height=-0.3), ["init_height", "-0.3"]),
        (GO2.replace(init_height=0.15), ["init_height=0.15", "below the ground"]),
        (driven(stiffness=-25.0), ["stiffness", "-25"]),
        (driven(effort_limit=0.0), ["effort_limit", "above 0"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_fault_of_the_data_is_named(robot, told):
    with pytest.raises(ModelError) as error:
        check_robot(robot)
    assert "\n" not in str(error.value) and not [word for word in told if word not in str(error.value)], error.value


def rewritten(tmp_path: Path, change: str, by: str) -> Robot:
    text = GO2.mjcf.read_text()
    assert change in text
    (tmp_path / "robot.xml").write_text(text.replace(change, by))
    return GO2.replace(mjcf=tmp_path / "robot.xml")


def test_a_model_without_a_free_joint(tmp_path):
    robot = rewritten(tmp_path, '<freejoint name="root"/>', "")
    with pytest.raises(ModelError, match=rf"no free joint.*{GO2.base_name}"):
        check_robot(robot)


def in_degrees(match: re.Match[str]) -> str:
    return 'range="' + " ".join(f"{math.degrees(float(word)):.6g}" for word in match[1].split()) + '"'


@pytest.mark.parametrize("name", ROBOTS)
def test_a_model_in_another_unit_of_angles(tmp_path, name):
    """Whatever reads a robot's file says so: it is told by the ranges alone."""
    text, path = ROBOTS[name].mjcf.read_text(), tmp_path / "robot.xml"
    path.write_text(text.replace('angle="radian"', 'angle="degree"'))
    with pytest.raises(ModelError, match=r"radians and read as degrees"):
        load_spec(path)
    path.write_text(re.sub(r'range="([^"]*)"', in_degrees, text))
    with pytest.raises(ModelError, match=r"degrees and read as radians"):
        load_spec(path)
    path.write_text(re.sub(r'range="([^"]*)"', in_degrees, text).replace('angle="radian"', 'angle="degree"'))
    load_spec(path)


@pytest.mark.parametrize("command", ["convert", "validate", "run", "twin"])
def test_commands_that_take_a_model_refuse_another_unit(tmp_path, capsys, command):
    path = str(tmp_path / "robot.xml")
    Path(path).write_text(GO2.mjcf.read_text().replace('angle="radian"', 'angle="degree"'))
    given = {"convert": [path, "--out", "robot.usd"], "twin": ["unitree-go2", "--model", path]}
    if command not in given:
        given[command] = [str(make_stand_bundle(tmp_path / "bundle", GO2)), "--model", path]
    assert main([command, *given[command]]) == 2
    assert "read as degrees" in capsys.readouterr().err


def test_feet_that_cannot_touch_anything(tmp_path):
    spec = mujoco.MjSpec.from_file(str(GO2.mjcf))
    for geom in spec.body(GO2.foot_names[0]).geoms:
        geom.contype = geom.conaffinity = 0
    spec.compile()
    (tmp_path / "robot.xml").write_text(spec.to_xml())
    with pytest.raises(ModelError, match=rf"{GO2.foot_names[0]}.*touch the ground"):
        check_robot(GO2.replace(mjcf=tmp_path / "robot.xml"))


def test_a_part_of_what_a_joint_can_do_is_no_fault():
    low, high = ANYMAL_C.joint_limits[0]
    check_robot(ANYMAL_C.replace(joint_limits=first(ANYMAL_C.joint_limits, (low + 0.1, high - 0.1))))


def test_training_refuses_before_anything_is_written(tmp_path, capsys):
    pose = f"task.robot.default_joint_pos={[40.0, *GO2.default_joint_pos[1:]]}"
    assert main(["train", "velocity-flat-go2-blind", pose, "--out", str(tmp_path / "run")]) == 2
    assert f"default_joint_pos of {FIRST} is 40" in capsys.readouterr().err and not (tmp_path / "run").exists()
