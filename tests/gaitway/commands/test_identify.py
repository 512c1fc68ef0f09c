"""``gaitway identify``, from the flight of a hung twin to a file that can be trained on, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gaitway_onboard.control.loop import run_loop
from gaitway_onboard.flight.opening import open_flight
from gaitway_onboard.interface import Signals
from gaitway_onboard.transports.open import Connection
from gaitway_onboard.transports.unitree import UnitreeRobot
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.digital_twin.quirks import Quirks
from gaitway_sim2real.digital_twin.twin import Twin
from gaitway_sim2real.identify.excitation import Excitation
from gaitway_tasks.robots import GO2
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters
from gaitway_tasks.robots.parameters_file import load_parameters

from gaitway.cli import main

SECONDS = 10.0
TRUTH = RobotParameters(
    robot="go2",
    delay=0.012,
    joints={
        name: JointParameters(
            stiffness_scale=0.85, damping_scale=1.15, strength=0.9, armature=0.016, friction=0.4, viscous=0.2
        )
        for name in GO2.joint_names
    },
)


@pytest.fixture(scope="module")
def flight(tmp_path_factory) -> Path:
    """An excitation of a twin with hidden parameters, over the robot's own wire."""
    path = tmp_path_factory.mktemp("flights") / "excitation.mcap"
    bus = MemoryBus("computer")
    quirks = Quirks(parameters=TRUTH, encoder_noise=1e-4, velocity_noise=0.02, torque_noise=0.05, loss=0.005)
    twin = Twin(GO2, bus.join("robot"), quirks=quirks, seed=1, hung=True, timestep=0.001)
    bus.attach(twin.advance)
    robot = UnitreeRobot(GO2.hardware, Connection(bus=bus))
    robot.connect()
    robot.take_over()
    log = open_flight(path, robot.joint_names, {"robot": "go2", "hardware": "unitree-go2"}, realtime=False)
    motion = Excitation(GO2, robot.joint_names, seconds=SECONDS)
    report = run_loop(robot, motion, lambda now: (0.0, 0.0, 0.0), SECONDS, hardware=GO2.hardware, flight=log)
    log.close()
    assert report.ok, report.reason
    return path


@pytest.mark.slow
def test_from_a_flight_to_a_parameter_file(flight, tmp_path, capsys):
    out = tmp_path / "found" / "params.yaml"
    words = ["identify", str(flight.parent), "--robot", "unitree-go2", "--out", str(out), "--share", "robot"]
    assert main([*words, "--threads", "1"]) == 0
    found = load_parameters(out, "go2")
    assert found.delay == pytest.approx(TRUTH.delay, abs=2e-3)
    assert 0.0 < found.std["delay"] < 2e-3
    for name, joint in found.joints.items():
        for kind, most in (
            ("stiffness_scale", 0.05), ("damping_scale", 0.05), ("strength", 0.05), ("armature", 0.1),
            ("friction", 0.1), ("viscous", 0.1),
        ):  # fmt: skip
            assert getattr(joint, kind) == pytest.approx(getattr(TRUTH.joints[name], kind), rel=most), (name, kind)
    said = capsys.readouterr().out
    assert "not told: base_mass" in said and str(out) in said
    assert "IDENTIFIED" in out.with_suffix(".html").read_text()


def states_only(path: Path, *, robot: str = "go2", spin: float = 0.0, count: int = 2000) -> Path:
    """A flight of ``count`` states and commands that move nothing, of a base that turns at ``spin`` [rad/s]."""
    joints = GO2.hardware.joint_names
    log = open_flight(path, joints, {"robot": robot, "hardware": ""}, realtime=False)
    zero, kp = np.zeros(12), np.full(12, 25.0)
    for tick in range(count):
        stamp = 0.002 * tick
        log.state(
            Signals(joint_pos=zero, joint_vel=zero, imu_quat_wxyz=np.eye(4)[0], gyro=np.full(3, spin), stamp=stamp)
        )
        log.frame(stamp, "policy", zero, kp, 0.02 * kp, zero)
    log.close()
    return path


@pytest.mark.parametrize(
    ("flight_of", "options", "message"),
    [
        ({"robot": "h1"}, [], "is a flight of h1, not of go2"),
        ({"spin": 0.5}, [], "Fix the base to a stand"),
        ({"count": 50}, [], "too few"),
        ({}, [], "moving joints"),
        ({}, ["--robot", "go3"], "unknown robot 'go3'"),
        ({}, ["--threads", "-1"], "--threads -1: must be at least 0"),
    ],
)
def test_what_it_cannot_use_is_refused_in_one_line(tmp_path, capsys, flight_of, options, message):
    path = states_only(tmp_path / "flight.mcap", **flight_of)
    out = tmp_path / "params.yaml"
    assert main(["identify", str(path), "--robot", "unitree-go2", "--out", str(out), *options]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not out.exists()


def test_a_folder_without_flights_and_a_missing_one_are_refused(tmp_path, capsys):
    for path, message in ((tmp_path, "has no flight"), (tmp_path / "none.mcap", "none.mcap")):
        assert main(["identify", str(path), "--robot", "go2", "--out", str(tmp_path / "p.yaml")]) == 2
        assert message in capsys.readouterr().err
