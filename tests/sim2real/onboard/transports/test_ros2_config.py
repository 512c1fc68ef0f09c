"""``ros2.yaml``: the example of the documentation is complete, and everything wrong is named."""

import re
from pathlib import Path

import pytest
import yaml
from gaitway_onboard.interface import DeployError
from gaitway_onboard.transports.ros2_config import load_ros2
from gaitway_sim2real.hardware import ros2_hardware
from gaitway_tasks.robots import ANYMAL_C
from tree import ROOT

from .ros2_by_hand import anymal

PAGE = ROOT / "docs" / "ros2.md"


def example() -> dict:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return yaml.safe_load(blocks[0])


def written(tmp_path, data) -> Path:
    path = tmp_path / "ros2.yaml"
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    return path


def test_the_example_of_the_documentation_is_complete(tmp_path):
    config = load_ros2(written(tmp_path, example()))
    assert config.robot == "anymal-c" and config.interface == "effort"
    hardware = config.hardware()
    assert set(hardware.joint_names) == set(ANYMAL_C.joint_names)
    assert hardware.effort_limit["LF_HAA"] == 80.0 and hardware.command_period == 1.0 / config.rate
    law = ANYMAL_C.actuators["legs"]
    assert hardware.max_stiffness["RH_KFE"] >= law.stiffness and hardware.max_damping["RH_KFE"] >= law.damping


def test_numbers_by_pattern_of_the_joints_name():
    config = anymal(effort_limit={".*_KFE": 60, ".*": 80.0})
    assert config.per_joint("effort_limit")["LF_KFE"] == 60
    assert config.hardware().effort_limit["LF_HFE"] == 80.0


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"robot": "anymal-z"}, "robot 'anymal-z': known are"),
        ({"joints": ["LF_HAA"]}, "joints must be those of anymal-c, in any order, and are not: .*RH_KFE"),
        ({"joints": [*ANYMAL_C.joint_names, "LF_HAA"]}, "twice"),
        ({"joints": "LF_HAA"}, "joints is 'LF_HAA', and should be list"),
        ({"joints": [1, 2]}, "joints are names"),
        ({"interface": "velocity"}, "interface 'velocity'"),
        ({"message": "Float32MultiArray"}, "message 'Float32MultiArray'"),
        ({"message": "JointTrajectory"}, "JointTrajectory commands positions"),
        ({"rate": 5}, "rate 5: give commands per second"),
        ({"rate": True}, "rate is True, and should be int or float"),
        ({"rate": ".inf"}, "rate is '.inf'"),
        ({"imu": "imu/data"}, "'imu/data' is no full ROS topic name"),
        ({"imu_quat_wxyz": [1, 0, 0]}, "imu_quat_wxyz .*unit quaternion"),
        ({"imu_quat_wxyz": [1, 1, 0, 0]}, "unit quaternion"),
        ({"imu_quat_wxyz": [1, "x", 0, 0]}, "should be four numbers"),
        ({"effort_limit": {".*_HAA": 80}}, "effort_limit: no pattern matches joint 'LF_HFE'"),
        ({"effort_limit": 0}, "effort_limit of LF_HAA is 0: give a number above zero"),
        ({"damping": {".*": "soft"}}, "damping of LF_HAA is 'soft'"),
        ({"stiffnes": 40}, "unknown key stiffnes; known are robot"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, change, reason):
    with pytest.raises(DeployError, match=reason) as caught:
        ros2_hardware(written(tmp_path, {**example(), **change}))
    assert str(tmp_path) in str(caught.value)


def test_what_is_missing_is_named(tmp_path):
    data = example()
    del data["effort_limit"], data["command"]
    with pytest.raises(DeployError, match="command, effort_limit must be given"):
        load_ros2(written(tmp_path, data))


@pytest.mark.parametrize(
    "text, reason", [("- a\n", "keys and values"), ("a: [", "is not YAML"), ("", "keys and values")]
)
def test_files_that_are_no_configuration(tmp_path, text, reason):
    with pytest.raises(DeployError, match=reason):
        load_ros2(written(tmp_path, text))
    with pytest.raises(DeployError, match=r"absent.yaml: no such file"):
        load_ros2(tmp_path / "absent.yaml")
