import pytest
from gaitway_sim2real.digital_twin.quirks import QuirkError, Quirks, quirks_from, read_quirks
from gaitway_tasks.robots import GO2
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters
from gaitway_tasks.robots.parameters_file import save_parameters


def test_words_files_and_their_order(tmp_path):
    file = tmp_path / "quirks.yaml"
    file.write_text("latency: 0.004\nloss: 0.5\nimu_glitch: zero\n")
    read = read_quirks([str(file), "loss=0.01", " jitter = 2e-3 ", "mode_machine=5"])
    assert read == Quirks(latency=0.004, loss=0.01, jitter=0.002, imu_glitch="zero", mode_machine=5)


def test_nothing_is_wrong_by_default():
    assert read_quirks([]) == Quirks() and Quirks().latency == Quirks().encoder_bias == Quirks().loss == 0.0


def test_parameters_are_read_from_the_file_beside(tmp_path):
    found = RobotParameters(robot="go2", joints={"FL_calf_joint": JointParameters(strength=0.8)}, delay=0.01)
    save_parameters(found, tmp_path / "params.yaml")
    (tmp_path / "quirks.yaml").write_text("parameters: params.yaml\n")
    assert read_quirks([str(tmp_path / "quirks.yaml")]).parameters == found
    assert read_quirks([f"parameters={tmp_path / 'params.yaml'}"]).parameters == found


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"latncy": 1}, "no quirk 'latncy'"),
        ({"latency": "soon"}, "latency=soon"),
        ({"latency": -0.1}, "not negative"),
        ({"latency": "nan"}, "not negative"),
        ({"loss": 1.5}, "at most 1"),
        ({"imu_glitch": "odd"}, "nan, zero, jump"),
        ({"motion_switcher": "rude"}, "normal, slow"),
    ],
)
def test_what_cannot_be_is_refused(values, named):
    with pytest.raises(QuirkError, match=named):
        quirks_from(values)


def test_files_that_are_none(tmp_path):
    with pytest.raises(QuirkError, match=r"missing.yaml: no such file"):
        read_quirks([str(tmp_path / "missing.yaml")])
    bad = tmp_path / "bad.yaml"
    bad.write_text("- latency\n")
    with pytest.raises(QuirkError, match="name: value"):
        read_quirks([str(bad)])


def test_joints_and_robots_are_checked():
    with pytest.raises(QuirkError, match="dead_motor=FL_knee: go2 has FL_hip"):
        Quirks(dead_motor="FL_knee").check("go2", GO2.joint_names)
    with pytest.raises(QuirkError, match="of h1, and the twin is go2"):
        Quirks(parameters=RobotParameters(robot="h1")).check("go2", GO2.joint_names)
    with pytest.raises(QuirkError, match="actuator network"):
        Quirks(parameters=RobotParameters(robot="go2", actuator_network="net.pt"))
