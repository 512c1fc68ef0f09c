"""The MuJoCo twin behaves as a robot would, and nothing on its path needs torch."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest
import stand_bundle
import torch
from gaitway_onboard.bundle.contract import BundleError, Contract
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.control.commands import CommandError
from gaitway_onboard.flight.reading import read_flight
from gaitway_sim2real.lockstep.robot import LockstepRobot
from gaitway_sim2real.lockstep.run import RunReport, Tracking, _summary, run_bundle
from gaitway_tasks.actuators import dc_motor_torque
from gaitway_tasks.robots import ANYMAL_C, ROBOTS, DCMotor
from gaitway_tasks.robots.mjcf import ModelError
from gaitway_tasks.spec import Task
from once import exported_once
from stand_bundle import make_stand_bundle
from torch import nn

G1_29DOF = ROBOTS["g1-29dof"]
FORWARD = [(0.0, (0.5, 0.0, 0.0))]


@pytest.fixture(scope="module")
def standing(task: Task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that barely moves: small random actions about the default pose."""
    torch.manual_seed(0)
    actor = nn.Linear(135, 12)
    nn.init.normal_(actor.weight, std=0.002)
    return exported_once(tmp_path_factory, task, actor, checkpoint_sha256="00" * 32)


@pytest.fixture
def reordered(tmp_path: Path) -> Path:
    """The same robot with its legs listed in another order."""
    tree = ET.parse(ANYMAL_C.mjcf)
    base = tree.find(".//body[@name='base']")
    assert base is not None
    hips = {body.attrib["name"]: body for body in base.findall("body")}
    for name in ("RH_HIP", "LF_HIP", "RF_HIP", "LH_HIP"):
        base.remove(hips[name])
        base.append(hips[name])
    tree.write(tmp_path / "reordered.xml")
    return tmp_path / "reordered.xml"


def test_joints_come_in_the_models_own_order(standing: Path, reordered: Path) -> None:
    contract = Contract.load(standing)
    twin = LockstepRobot(standing, reordered)
    assert twin.joint_names[:4] == ("RH_HAA", "RH_HFE", "RH_KFE", "LF_HAA")
    assert sorted(twin.joint_names) == sorted(contract.joint_names)
    by_name = dict(zip(contract.joint_names, contract.default_joint_pos, strict=True))
    np.testing.assert_allclose(twin.read().joint_pos, [by_name[name] for name in twin.joint_names])


def test_joint_order_of_the_model_does_not_matter(exported: Path, reordered: Path) -> None:
    """The same robot, policy and commands, with joints addressed through two different orders."""
    ends = []
    for model in (None, reordered):
        twin = LockstepRobot(exported, model)
        policy = OnboardPolicy(exported, twin.joint_names)
        for step in range(20):
            twin.write(policy.step(twin.read(), (0.5, 0.2, 0.1)), 40.0, 5.0)
            twin.sleep_until((step + 1) * 0.02)
        ends.append(dict(zip(twin.joint_names, twin.read().joint_pos, strict=True)))
    assert max(abs(value - ANYMAL_C.default_joint_pos[i]) for i, value in enumerate(ends[0].values())) > 0.05
    np.testing.assert_allclose(list(ends[1].values()), [ends[0][name] for name in ends[1]], atol=1e-6)


def test_signals_are_those_of_the_free_base(standing: Path) -> None:
    twin = LockstepRobot(standing)
    quat = np.array([0.5, -0.1, 0.7, 0.3])
    quat /= np.linalg.norm(quat)
    twin.data.qpos[3:7], twin.data.qvel[3:6] = quat, [0.1, -0.2, 0.3]
    signals = twin.read()
    np.testing.assert_allclose(signals.imu_quat_wxyz, quat)
    np.testing.assert_allclose(signals.gyro, [0.1, -0.2, 0.3])


def test_base_velocity_is_in_the_base_frame(standing: Path) -> None:
    twin = LockstepRobot(standing)
    twin.data.qpos[3:7] = [np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]  # facing +y
    twin.data.qvel[:6] = [0.1, 0.7, 0.0, 0.0, 0.0, -0.4]
    np.testing.assert_allclose(twin.base_velocity(), [0.7, -0.1, -0.4], atol=1e-12)


def test_a_write_follows_the_actuator_law_with_the_gains_given(standing: Path) -> None:
    twin = LockstepRobot(standing)
    rng = np.random.default_rng(0)
    targets, velocity = twin.read().joint_pos + rng.normal(scale=0.4, size=12), rng.normal(size=12)
    twin.data.qvel[twin._dof] = velocity
    for kp, kd in ((40.0, 5.0), (200.0, 11.0)):
        twin.write(targets, kp, kd)
        law = DCMotor(stiffness=kp, damping=kd, effort_limit=80.0, saturation_effort=120.0, velocity_limit=7.5)
        mujoco.mj_forward(twin.model, twin.data)
        expected = dc_motor_torque(law, targets, twin.read().joint_pos, velocity)
        np.testing.assert_allclose(twin.data.qfrc_actuator[twin._dof], expected, atol=1e-9)
        np.testing.assert_allclose(twin.read().joint_torque, expected, atol=1e-9)


def test_damping_resists_motion_and_holds_no_position(standing: Path) -> None:
    twin = LockstepRobot(standing)
    twin.write(twin.read().joint_pos, 200.0, 11.0)
    twin.sleep_until(1.0)
    assert twin.base_height() > 0.45
    twin.damp()
    twin.sleep_until(1.02)
    moving = twin.data.qvel[twin._dof].copy()
    twin.sleep_until(4.0)
    assert twin.base_height() < 0.3  # down, softly
    assert np.abs(moving).max() < 3.0


def test_a_robot_on_two_feet_hangs_until_its_policy_runs_and_when_it_ends(tmp_path: Path) -> None:
    bundle, seen = make_stand_bundle(tmp_path / "g1", G1_29DOF), []
    report = run_bundle(bundle, 0.2, command=FORWARD, log=tmp_path / "log.mcap", echo=seen.append)
    assert report.exit_code == 0 and report.loop.policy_periods == 10, seen
    quats = read_flight(tmp_path / "log.mcap").state.imu_quat_wxyz
    tilt = 2.0 * np.hypot(*quats[:, 1:3].T)
    assert tilt[:20].max() < 1e-6 < tilt[-1]  # held while it stands up, then on its own feet
    assert np.ptp(tilt[-20:]) < 1e-6  # held again where its policy left it


def test_run_tracks_reports_and_logs(standing: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    report = run_bundle(standing, 2.0, command=FORWARD, log=tmp_path / "log.mcap", echo=lines.append)
    assert report.exit_code == 0 and report.loop.policy_periods == 100
    assert report.linear_error == pytest.approx(0.5, abs=0.15)  # it does not walk
    assert len(lines) == 5 and "12 joints matched by name" in lines[0]
    assert lines[2].split("|")[0].strip() == "1" and lines[3].split("|")[0].strip() == "2"
    stands = "DOES NOT FOLLOW (goes 0 % of the speed told): finished after 100 policy periods; mean error 0."
    assert lines[-1].startswith(stands)
    flight = read_flight(tmp_path / "log.mcap")
    assert flight.robot == "anymal-c" and len(flight.policy) >= 100
    assert flight.contract == Contract.load(standing) and flight.events[-1].kind == "stop"


@pytest.mark.parametrize(
    ("told", "went", "seconds", "lag"),
    [
        ((0.8, 0.0, 0.0), (0.17, 0.0, 0.0), 8.0, "goes 21 % of the speed told"),
        ((0.8, 0.0, 0.0), (-0.2, 0.0, 0.0), 8.0, "goes 0 % of the speed told"),
        ((0.8, 0.0, 1.0), (0.7, 0.3, 0.3), 8.0, "goes 30 % of the turning told"),
        ((0.8, 0.0, 1.0), (0.1, 0.5, 0.2), 8.0, "goes 12 % of the speed told and 20 % of the turning told"),
        ((0.8, 0.0, 0.5), (0.45, 0.1, 0.3), 8.0, ""),
        ((0.0, 0.0, 0.0), (0.1, 0.1, 0.1), 8.0, ""),  # standing is not judged, nor are small commands
        ((0.1, 0.0, 0.1), (0.0, 0.0, 0.0), 8.0, ""),
        ((0.8, 0.0, 0.0), (0.0, 0.0, 0.0), 1.0, ""),  # nor is a robot that only sets out
    ],
)
def test_a_robot_that_does_not_follow_is_not_ok(
    standing: Path, told: tuple[float, ...], went: tuple[float, ...], seconds: float, lag: str
) -> None:
    robot = LockstepRobot(standing)
    tracking = Tracking(robot, OnboardPolicy(standing, robot.joint_names), lambda line: None, 50)
    tracking.command, tracking.velocity = [told] * int(50 * seconds), [np.array(went)] * int(50 * seconds)
    loop: Any = SimpleNamespace(ok=True, reason="finished", policy_periods=50, compute_us=[1.0], overruns=0, clamped=0)
    numbers = {"linear_error": 0.1, "yaw_error": 0.1, "distance": 1.0, "shares": tracking.shares()}
    report = RunReport(loop=loop, **numbers)
    assert report.lag == lag and report.exit_code == 0, "that is for a verdict to say"
    assert _summary(report).startswith(f"DOES NOT FOLLOW ({lag}): finished" if lag else "OK: finished")


def test_runs_are_repeatable(standing: Path) -> None:
    reports = [run_bundle(standing, 1.0, echo=lambda line: None) for _ in range(2)]
    assert reports[0].linear_error == reports[1].linear_error


def test_a_trip_ends_in_exit_code_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy's targets are finite, but none for a joint."""
    graph = stand_bundle.stand_graph((5e9,) * 12)
    monkeypatch.setattr(stand_bundle, "stand_graph", lambda pose: graph)
    bundle = make_stand_bundle(tmp_path / "bundle")
    lines: list[str] = []
    report = run_bundle(bundle, 1.0, echo=lines.append)
    assert report.exit_code == 1 and "joint_pos_target[0] (LF_HAA) = 5e+09" in lines[-1]


def test_bad_requests_are_refused_before_anything_runs(standing: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="seconds = 0"):
        run_bundle(standing, 0.0)
    with pytest.raises(CommandError, match="vx = 4"):
        run_bundle(standing, 1.0, command=[(0.0, (4.0, 0.0, 0.0))])
    with pytest.raises(ValueError, match=r"video walk\.avi: the name must end in \.mp4"):
        run_bundle(standing, 1.0, video="walk.avi")
    with pytest.raises(ModelError, match="no MJCF file"):
        run_bundle(standing, 1.0, model=tmp_path / "none.xml")
    with pytest.raises(BundleError, match="no such folder"):
        run_bundle(tmp_path / "none", 1.0)


def test_an_edited_bundle_does_not_run(bundle: Path) -> None:
    xml = bundle / "robot.xml"
    xml.write_text(xml.read_text().replace('mass="19.203"', 'mass="9.203"'))
    with pytest.raises(BundleError, match=r"robot\.xml is truncated or edited"):
        run_bundle(bundle, 1.0)


def test_the_whole_path_imports_no_torch(standing: Path) -> None:
    code = (
        "import sys; from gaitway_sim2real.lockstep.run import run_bundle; "
        f"report = run_bundle({str(standing)!r}, 0.2); "
        "sys.exit('torch imported' if 'torch' in sys.modules else report.exit_code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "OK: finished" in done.stdout
