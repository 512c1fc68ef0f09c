"""Hardware of robots on their wire: maps of motors, modes and limits, against the makers' figures."""

import dataclasses

import pytest
from gaitway_files.hardware import PER_JOINT
from gaitway_files.patterns import by_pattern
from gaitway_tasks.robots import ROBOTS

HARDWARE = {robot.hardware.name: (robot, robot.hardware) for robot in ROBOTS.values() if robot.hardware is not None}
every = pytest.mark.parametrize(("robot", "hardware"), HARDWARE.values(), ids=HARDWARE)


@every
def test_motors_drive_each_joint_of_the_robot_once(robot, hardware):
    assert hardware.robot == robot.name
    assert sorted(hardware.joint_names) == sorted(robot.joint_names)
    assert set(hardware.feet) <= set(robot.foot_names)
    for key in PER_JOINT:
        assert set(getattr(hardware, key)) == set(robot.joint_names), key


@every
def test_the_robot_s_own_drives_can_be_driven(robot, hardware):
    """Robots that are trained with their own drives can be deployed; H1's are Isaac Lab's, stronger than the robot."""
    for name, law in zip(robot.joint_names, robot.joint_actuators, strict=True):
        if robot.name != "h1":
            assert law.stiffness <= hardware.max_stiffness[name], name
            assert law.damping <= hardware.max_damping[name], name
            assert law.effort_limit <= hardware.effort_limit[name], name


def slots(name, *joints):
    return [HARDWARE[name][1].motors.index(joint) for joint in joints]


def test_go2_is_numbered_by_leg_from_the_front_right():
    _, go2 = HARDWARE["unitree-go2"]
    legs = [f"{leg}_{joint}_joint" for leg in ("FR", "FL", "RR", "RL") for joint in ("hip", "thigh", "calf")]
    assert slots("unitree-go2", *legs) == list(range(12)) and go2.motors[12:] == 8 * (None,)
    assert go2.family == "unitree_go" and set(go2.enable.values()) == {1} and go2.command_period == 0.002
    assert go2.effort_limit["RL_hip_joint"] == go2.effort_limit["FR_thigh_joint"] == 23.7
    assert go2.effort_limit["FL_calf_joint"] == 45.43 and go2.mode_machines == {}
    assert go2.feet == ("FR_foot", "FL_foot", "RR_foot", "RL_foot") and go2.stand_down == ("sport", 1005)


def test_h1_is_numbered_by_strength():
    _, h1 = HARDWARE["unitree-h1"]
    assert slots("unitree-h1", "right_hip_roll", "right_hip_pitch", "right_knee") == [0, 1, 2]
    assert slots("unitree-h1", "left_hip_roll", "left_hip_pitch", "left_knee") == [3, 4, 5]
    assert slots("unitree-h1", "torso", "left_hip_yaw", "right_hip_yaw", None) == [6, 7, 8, 9]
    assert slots("unitree-h1", "left_ankle", "right_ankle", "right_shoulder_pitch", "right_elbow") == [10, 11, 12, 15]
    assert slots("unitree-h1", "left_shoulder_pitch", "left_elbow") == [16, 19] and len(h1.motors) == 20
    weak = {name for name, mode in h1.enable.items() if mode == 0x01}
    assert weak == {name for name in h1.joint_names if h1.motors.index(name) > 9}
    assert {mode for name, mode in h1.enable.items() if name not in weak} == {0x0A}
    efforts = {name: h1.effort_limit[name] for name in ("left_knee", "torso", "left_ankle", "right_elbow")}
    assert efforts == {"left_knee": 300.0, "torso": 200.0, "left_ankle": 40.0, "right_elbow": 18.0}
    assert h1.imu_joint == "torso"


def test_g1_is_numbered_from_the_left_hip_and_keeps_its_gaps_with_23_joints():
    _, g1 = HARDWARE["unitree-g1"]
    found = slots("unitree-g1", *(f"{joint}_joint" for joint in (
        "left_hip_pitch", "left_ankle_roll", "right_hip_pitch", "waist_yaw", "waist_roll", "waist_pitch",
        "left_shoulder_pitch", "left_elbow", "left_wrist_yaw", "right_shoulder_pitch", "right_wrist_yaw",
    )))  # fmt: skip
    assert found == [0, 5, 6, 12, 13, 14, 15, 18, 21, 22, 28] and len(g1.motors) == 29
    assert g1.family == "unitree_hg" and 5 in g1.mode_machines and g1.mode_pr == 0
    _, small = HARDWARE["unitree-g1-23dof"]
    assert 4 in small.mode_machines and not set(small.mode_machines) & set(g1.mode_machines)
    gaps = [slot for slot, name in enumerate(small.motors) if name is None]
    assert gaps == [13, 14, 20, 21, 27, 28]
    assert all(name in (None, g1.motors[slot]) for slot, name in enumerate(small.motors))
    for joint, limit in (("left_hip_yaw", 88.0), ("left_knee", 139.0), ("left_elbow", 25.0)):
        assert g1.effort_limit[f"{joint}_joint"] == small.effort_limit[f"{joint}_joint"] == limit
    assert g1.effort_limit["left_wrist_yaw_joint"] == 5.0


GO2 = ROBOTS["go2"].hardware


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"motors": (*GO2.motors[:1], *GO2.motors[:1], *GO2.motors[2:])}, "motors lists FR_hip_joint twice"),
        ({"damping": {"FR_hip_joint": 3.0}}, "damping must have each joint of motors, and has not: FL_calf_joint"),
        ({"enable": {**GO2.enable, "tail": 1}}, "enable must have each joint of motors, and has not: tail"),
        ({"effort_limit": {**GO2.effort_limit, "FR_hip_joint": 0.0}}, "effort_limit of FR_hip_joint is 0.0, and must"),
        ({"command_period": 0.0}, "command_period is 0.0"),
        ({"imu_joint": "waist"}, "imu_joint 'waist' is none of its motors'"),
    ],
)
def test_definitions_that_contradict_themselves(changes, message):
    with pytest.raises(ValueError, match=f"unitree-go2: {message}"):
        dataclasses.replace(GO2, **changes)


def test_by_pattern_takes_the_first_that_matches():
    assert by_pattern(("a_hip", None, "a_knee"), {".*_hip": 1, ".*": 2}) == {"a_hip": 1, "a_knee": 2}
    with pytest.raises(ValueError, match=r"no pattern matches joint 'a_knee': "):
        by_pattern(("a_hip", "a_knee"), {".*_hip": 1})
