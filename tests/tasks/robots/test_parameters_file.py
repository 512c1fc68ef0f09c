"""``params.yaml``: lossless, and strict about what it accepts."""

import pytest
import yaml
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters
from gaitway_tasks.robots.parameters_file import ParameterError, load_parameters, save_parameters

FOUND = RobotParameters(
    robot="go2",
    delay=0.012345678901234567,
    base_mass=7.1,
    base_com=(0.02, -0.001, 1 / 3),
    joints={
        "FL_hip_joint": JointParameters(stiffness_scale=0.9, damping_scale=1.1, strength=0.95, armature=0.011),
        "RR_calf_joint": JointParameters(friction=0.21, viscous=0.0),
    },
    std={"delay": 1e-4, "joints.FL_hip_joint.armature": 1e-3},
)


def test_what_is_saved_is_what_is_loaded(tmp_path):
    path = save_parameters(FOUND, tmp_path / "params.yaml")
    assert load_parameters(path, "go2") == FOUND
    assert [p.name for p in tmp_path.iterdir()] == ["params.yaml"]


def test_a_network_must_lie_beside_the_file(tmp_path):
    path = save_parameters(RobotParameters(robot="go2", actuator_network="drive.pt"), tmp_path / "params.yaml")
    with pytest.raises(ParameterError, match=r"drive\.pt.*not beside"):
        load_parameters(path)
    (tmp_path / "drive.pt").write_bytes(b"x")
    assert load_parameters(path).actuator_network == "drive.pt"


def test_another_robots_file_is_refused(tmp_path):
    path = save_parameters(FOUND, tmp_path / "params.yaml")
    with pytest.raises(ParameterError, match="of the robot 'go2', not of 'h1'"):
        load_parameters(path, "h1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gaitway_parameters": 2}, "reads version 1"),
        ({"robot": "go3"}, "robot is 'go3'"),
        ({"dealy": 0.01}, "unknown key 'dealy'"),
        ({"delay": -0.001}, "delay is -0.001, expected a number at least 0"),
        ({"delay": float("nan")}, "delay is nan"),
        ({"delay": True}, "delay is True"),
        ({"base_mass": 0}, "base_mass is 0, expected a number above 0"),
        ({"base_com": [0, 1]}, "base_com"),
        ({"joints": {"FL_hip": {}}}, "unknown key 'FL_hip'"),
        ({"joints": {"FL_hip_joint": {"kp": 1}}}, "unknown key 'kp'"),
        ({"joints": {"FL_hip_joint": {"strength": 0}}}, "above 0"),
        ({"joints": {"FL_hip_joint": {"friction": "0.1 Nm"}}}, "expected a number"),
        ({"joints": [1]}, "expected keys and values"),
        ({"std": {"delay": -1}}, "std.delay"),
        ({"actuator_network": "../x.pt"}, "file beside"),
    ],
)
def test_a_file_that_says_something_impossible_is_refused(tmp_path, change, message):
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump({"gaitway_parameters": 1, "robot": "go2", **change}))
    with pytest.raises(ParameterError, match=message):
        load_parameters(path)


def test_what_cannot_be_loaded_is_not_saved(tmp_path):
    with pytest.raises(ParameterError, match="above 0"):
        save_parameters(RobotParameters(robot="go2", base_mass=-1.0), tmp_path / "params.yaml")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"), [(None, "no parameter file"), ("a: [", "not YAML"), ("[]", "no parameter"), ("", "no param")]
)
def test_what_is_no_parameter_file_is_refused(tmp_path, text, message):
    path = tmp_path / "params.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ParameterError, match=message):
        load_parameters(path)
