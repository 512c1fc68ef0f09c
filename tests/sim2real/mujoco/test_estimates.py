"""Policies that read more than sensors measure, and actions and drives that differ from joint to joint."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from gaitway_onboard.bundle.contract import BundleError, Contract
from gaitway_onboard.bundle.parts import HeightScan
from gaitway_onboard.bundle.policy import OnboardPolicy, SignalError
from gaitway_onboard.estimation.estimators import open_estimator
from gaitway_onboard.interface import Signals
from gaitway_sim2real.bundle import export
from gaitway_sim2real.bundle.export import export_bundle
from gaitway_sim2real.lockstep.robot import LockstepRobot
from gaitway_sim2real.lockstep.run import run_bundle
from gaitway_sim2real.mujoco.estimates import true_estimates
from gaitway_sim2real.trial import validate_bundle
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_tasks.actions import JointPositionAction
from gaitway_tasks.ground import Slope
from gaitway_tasks.mdp import observations
from gaitway_tasks.robots import ANYMAL_C, DCMotor, ImplicitPD
from gaitway_tasks.spec import HeightScanner, ObservationTerm, Task
from gaitway_tasks.velocity import velocity_flat
from once import exported_once
from torch import nn

SHA = "ab" * 32
SCAN = HeightScan(resolution=0.4, size=(1.6, 0.8))


def make_task() -> Task:
    """Reads base velocity and 15 heights, and drives thighs otherwise than hips and knees."""
    task = velocity_flat(ANYMAL_C)
    group = task.observations["policy"]
    scan = ObservationTerm(func=observations.height_scan, params={"sensor": "scanner"}, clip=(-1.0, 1.0))
    return task.replace(
        observations={"policy": dataclasses.replace(group, terms={**group.terms, "height_scan": scan})},
        height_scanners={"scanner": HeightScanner(resolution=SCAN.resolution, size=SCAN.size)},
        estimators=("root_lin_vel_b", "height_scan"),
        actions=JointPositionAction(
            scale={".*_HFE": 0.5, ".*_(HAA|KFE)": 0.25}, clip={".*_KFE": (-0.9, 0.9)}, raw_clip=2.0
        ),
        robot=ANYMAL_C.replace(
            actuators={
                "thighs": ImplicitPD(
                    stiffness=120.0, damping=3.0, effort_limit=70.0, armature=0.02, joints=(".*_HFE",)
                ),
                "others": dataclasses.replace(ANYMAL_C.actuators["legs"], joints=(".*_HAA", ".*_KFE")),
            }
        ),
    )  # fmt: skip


@pytest.fixture(scope="module")
def actor() -> nn.Module:
    torch.manual_seed(0)
    layer = nn.Linear(48 + 15, 12)
    layer.weight.data *= 10.0
    return layer


@pytest.fixture(scope="module")
def bundle(actor: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported_once(tmp_path_factory, make_task(), actor, checkpoint_sha256=SHA)


def test_a_scanner_that_hangs_from_another_body_is_refused(actor: nn.Module, tmp_path: Path) -> None:
    task = make_task()
    task = task.replace(
        height_scanners={"scanner": dataclasses.replace(task.height_scanners["scanner"], body="LF_HIP")}
    )
    with pytest.raises(
        ValueError, match=r"'scanner' hangs from the body 'LF_HIP'.*task\.height_scanners\.scanner\.body"
    ):
        export_bundle(task, actor, tmp_path / "bundle", checkpoint_sha256=SHA)
    assert not (tmp_path / "bundle").exists()


def signals(**changes: object) -> Signals:
    rng = np.random.default_rng(0)
    base = Signals(
        joint_pos=rng.normal(size=12),
        joint_vel=rng.normal(size=12),
        imu_quat_wxyz=np.array([1.0, 0.0, 0.0, 0.0]),
        gyro=rng.normal(size=3),
        stamp=0.0,
        base_lin_vel=rng.normal(size=3),
        height_scan=rng.uniform(0.3, 0.7, 15),
    )
    return dataclasses.replace(base, **changes)


def test_the_contract_names_what_must_be_estimated(bundle: Path) -> None:
    contract = Contract.load(bundle)
    assert contract.estimated == ("base_lin_vel", "height_scan")
    assert contract.input_names[-3:] == ("base_lin_vel", "height_scan", "state")
    assert contract.height_scan == SCAN and len(SCAN.points()) == 15
    np.testing.assert_allclose(SCAN.points()[:2], [(-0.8, -0.4), (-0.4, -0.4)])


def test_the_graph_reads_estimates_and_clips_joint_by_joint(bundle: Path, actor: nn.Module) -> None:
    given, command = signals(), (0.5, -0.2, 0.3)
    observation = np.concatenate(
        [
            given.base_lin_vel, given.gyro, [0.0, 0.0, -1.0], command,
            given.joint_pos - np.array(ANYMAL_C.default_joint_pos), given.joint_vel, np.zeros(12),
            np.clip(given.height_scan - 0.5, -1.0, 1.0),
        ]
    )  # fmt: skip
    with torch.inference_mode():
        raw = actor(torch.tensor(observation, dtype=torch.float32)[None])[0].numpy()
    assert (np.abs(raw) > 2.0).any(), "the action must reach its clip"
    scale = np.array([0.25, 0.5, 0.25] * 4)
    expected = np.array(ANYMAL_C.default_joint_pos) + scale * np.clip(raw, -2.0, 2.0)
    expected[2::3] = np.clip(expected[2::3], -0.9, 0.9)
    policy = OnboardPolicy(bundle)
    np.testing.assert_allclose(policy.step(given, command), expected, atol=1e-5)
    np.testing.assert_allclose(policy.action, np.clip(raw, -2.0, 2.0), atol=1e-5)


def test_a_robot_without_the_estimate_is_refused_by_name(bundle: Path) -> None:
    policy = OnboardPolicy(bundle)
    with pytest.raises(SignalError, match="base_lin_vel is missing: this policy needs an estimate of it"):
        policy.step(signals(base_lin_vel=None), (0.0, 0.0, 0.0))
    with pytest.raises(SignalError, match=r"height_scan has shape \(14,\), expected \(15,\)"):
        policy.step(signals(height_scan=np.zeros(14)), (0.0, 0.0, 0.0))
    policy.step(signals(), (0.0, 0.0, 0.0))


def test_each_joint_has_the_drive_of_its_group(bundle: Path) -> None:
    contract = Contract.load(bundle)
    assert {actuator.law: actuator.joints[0] for actuator in contract.actuators} == {
        "dc_motor": "LF_HAA",
        "implicit_pd": "LF_HFE",
    }
    twin = LockstepRobot(bundle)
    twin.write(np.array(ANYMAL_C.default_joint_pos) + 0.1, np.full(12, 50.0), np.zeros(12))
    twin.sleep_until(0.005)
    force = np.array(twin.data.actuator_force)
    assert (force > 1.0).all(), "gains of both laws must take effect"
    for name, law in zip(ANYMAL_C.joint_names, make_task().robot.joint_actuators, strict=True):
        assert contract.per_joint("effort_limit")[contract.joint_names.index(name)] == law.effort_limit
        assert isinstance(law, DCMotor) == (not name.endswith("HFE"))


def test_twin_and_suite_stand_in_for_the_estimator_and_say_so(bundle: Path) -> None:
    said: list[str] = []
    run_bundle(bundle, 0.2, echo=said.append)
    assert any("stood in for an estimator" in line for line in said)
    short = Scenario(name="s", title="s", about="", limits=(), envs=2, seconds=0.2, commands="standing")
    verdict = validate_bundle(bundle, scenarios=(short,), video=False)
    assert any("base velocity" in note for note in verdict.notes)


def test_heights_on_a_slope_are_those_of_the_plane() -> None:
    contract = type("C", (), {"estimated": ("height_scan",), "height_scan": SCAN})()
    yaw, slope = 0.7, 0.2
    quat = np.array([[np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]])
    found = true_estimates(contract, np.array([[1.0, 2.0, 0.9]]), quat, lambda: np.zeros((1, 3)), Slope(angle=slope))
    for (x, y), height in zip(SCAN.points(), found["height_scan"][0], strict=True):
        ahead = 1.0 + np.cos(yaw) * x - np.sin(yaw) * y
        assert height == pytest.approx(0.9 - np.tan(slope) * ahead)


def test_a_contract_whose_scan_and_input_disagree_is_refused(bundle: Path, tmp_path: Path) -> None:
    contract = dataclasses.replace(Contract.load(bundle), height_scan=None)
    with pytest.raises(BundleError, match="height_scan must describe the input of that name"):
        contract.save(tmp_path)
    double = dataclasses.replace(Contract.load(bundle), actuators=Contract.load(bundle).actuators[:1])
    with pytest.raises(BundleError, match="actuators must list each of joint_names once, and do not: LF_HFE"):
        double.save(tmp_path)


def test_a_bundle_names_who_estimates(
    actor: nn.Module, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph is the same, so it is not made again."""
    monkeypatch.setattr(export, "_export_graph", lambda policy, path: shutil.copy(bundle / "policy.onnx", path))
    assert Contract.load(bundle).estimators is None and open_estimator(bundle, ANYMAL_C.joint_names) is None
    named = export_bundle(
        make_task(), actor, tmp_path / "bundle", checkpoint_sha256=SHA, estimators={"base_lin_vel": "leg-inertial"}
    )
    assert Contract.load(named).estimators == {"base_lin_vel": "leg-inertial"}
    estimator = open_estimator(named, ANYMAL_C.joint_names[::-1])
    assert estimator is not None and estimator.provides == ("base_lin_vel",)
    for estimators, message in (
        ({"base_lin_vel": "crystal-ball"}, "names the estimator 'crystal-ball', which this Gaitway does not have"),
        ({"height_scan": "leg-inertial"}, "wants height_scan from an estimator of base_lin_vel"),
    ):
        with pytest.raises(BundleError, match=message):
            export_bundle(make_task(), actor, tmp_path / "no", checkpoint_sha256=SHA, estimators=estimators)
        assert not (tmp_path / "no").exists()
