"""A policy as a LEAPP package, written by NVIDIA's library, and back as a bundle that computes the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from estimating import estimating
from gaitway_onboard.bundle.contract import Contract, verify_files
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_sim2real.bundle import export
from gaitway_sim2real.bundle.calibration import NUM_FEATURES, CommandCalibration
from gaitway_sim2real.bundle.contracts import ExportError
from gaitway_sim2real.bundle.export import open_session
from gaitway_sim2real.bundle.signal_policy import SignalPolicy
from gaitway_sim2real.leapp.bundle import bundle_of_package
from gaitway_sim2real.leapp.package import LeappError, LeappPackage, is_leapp
from gaitway_sim2real.leapp.write import export_leapp
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.spec import Task
from gaitway_tasks.velocity import velocity_flat
from torch import nn

pytest.importorskip("leapp")


@pytest.fixture(scope="module")
def package(task: Task, actor: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read-only."""
    return export_leapp(task, actor, tmp_path_factory.mktemp("leapp") / "walk.leapp", checkpoint_sha256="ab" * 32)


@pytest.fixture
def copy(package: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(package, tmp_path / "walk.leapp"))


def description(package: Path) -> dict:
    return yaml.safe_load(next(package.glob("*.yaml")).read_text())


def rewrite(package: Path, data: dict) -> None:
    next(package.glob("*.yaml")).write_text(yaml.safe_dump(data))


def test_the_package_says_what_its_tensors_are_as_isaac_lab_does(package: Path, task: Task) -> None:
    model = description(package)["models"][task.name]
    joints = [list(ANYMAL_C.joint_names)]
    inputs = {row["name"]: row for row in model["inputs"]}
    said = {name: (row.get("kind"), row.get("element_names"), row.get("isaaclab_connection"))
            for name, row in inputs.items() if not name.endswith("_in")}  # fmt: skip
    assert said == {
        "robot_joint_pos": ("state/joint/position", joints, "state:robot:joint_pos"),
        "robot_joint_vel": ("state/joint/velocity", joints, "state:robot:joint_vel"),
        "robot_root_quat_w": ("state/body/rotation", [["qx", "qy", "qz", "qw"]], "state:robot:root_quat_w"),
        "robot_root_ang_vel_b": ("state/body/angular_velocity", [["x", "y", "z"]], "state:robot:root_ang_vel_b"),
        "base_velocity": (
            "command/body/velocity", [["lin_vel_x", "lin_vel_y", "ang_vel_z"]], "command:base_velocity"
        ),
    }  # fmt: skip
    outputs = {row["name"]: row for row in model["outputs"]}
    assert outputs["joint_pos"]["kind"] == "target/joint/position"
    assert outputs["joint_pos"]["element_names"] == joints
    assert outputs["joint_pos"]["isaaclab_connection"] == "write:robot:set_joint_position_target_index"
    assert (outputs["joint_pos_kp_gains"]["kind"], outputs["joint_pos_kd_gains"]["kind"]) == ("kp", "kd")
    assert description(package)["pipeline"]["feedback_flow"] == {
        f"{task.name}/{name}_out": [f"{task.name}/{name}_in"] for name in ("started", "last_action", "history")
    }
    assert description(package)["pipeline"]["configs"] == {"frequency": pytest.approx(50.0)}


def test_leapps_own_runtime_computes_the_bundles_targets(package: Path, exported: Path, golden: dict) -> None:
    """NVIDIA's InferenceManager on the package, against the recording of the bundle of the same policy."""
    from leapp import InferenceManager

    manager = InferenceManager(str(next(package.glob("*.yaml"))))
    node = next(iter(description(package)["models"]))
    names = {"joint_pos": "robot_joint_pos", "joint_vel": "robot_joint_vel", "gyro": "robot_root_ang_vel_b",
             "command": "base_velocity"}  # fmt: skip
    worst = 0.0
    for step, reset in enumerate(golden["reset"]):
        if reset:
            manager.reset()
        feed = {f"{node}/{theirs}": torch.tensor(golden[ours][step : step + 1]) for ours, theirs in names.items()}
        feed[f"{node}/robot_root_quat_w"] = torch.tensor(golden["imu_quat_wxyz"][step : step + 1, [1, 2, 3, 0]])
        outputs = manager.run_policy(feed)
        worst = max(
            worst, float(np.abs(outputs[f"{node}/joint_pos"].numpy()[0] - golden["joint_pos_target"][step]).max())
        )
        assert outputs[f"{node}/joint_pos_kp_gains"][0].tolist() == list(Contract.load(exported).per_joint("stiffness"))
    assert worst < 1e-6


def test_back_as_a_bundle_it_computes_the_same_for_any_batch(package: Path, exported: Path, tmp_path: Path) -> None:
    bundle = bundle_of_package(package, tmp_path / "bundle")
    verify_files(bundle)
    OnboardPolicy(bundle)  # replays the recording
    ours, theirs = open_session(bundle / "policy.onnx"), open_session(exported / "policy.onnx")
    contract, original = Contract.load(bundle), Contract.load(exported)
    assert (contract.joint_names, contract.actuators, contract.action) == (
        original.joint_names, original.actuators, original.action
    )  # fmt: skip
    rng = np.random.default_rng(0)
    batch = 5
    states = np.zeros((batch, contract.state_dim), np.float32), np.zeros((batch, original.state_dim), np.float32)
    for step in range(6):
        if step == 4:  # two robots reset on their own
            states[0][1:3], states[1][1:3] = 0.0, 0.0
        feed = {name: rng.standard_normal((batch, width)).astype(np.float32) for name, width in
                (("joint_pos", 12), ("joint_vel", 12), ("imu_quat_wxyz", 4), ("gyro", 3), ("command", 3))}  # fmt: skip
        feed["imu_quat_wxyz"] /= np.linalg.norm(feed["imu_quat_wxyz"], axis=1, keepdims=True)
        found = ours.run(["joint_pos_target", "action", "next_state"], {**feed, "state": states[0]})
        expected = theirs.run(["joint_pos_target", "action", "next_state"], {**feed, "state": states[1]})
        np.testing.assert_allclose(found[0], expected[0], atol=1e-6, rtol=1e-6)
        np.testing.assert_allclose(found[1], expected[1], atol=1e-6, rtol=1e-6)
        states = found[2], expected[2]


def test_a_bundle_made_of_this_package_is_kept(copy: Path) -> None:
    bundle = bundle_of_package(copy)
    before = (bundle / "contract.yaml").stat().st_mtime_ns
    assert bundle_of_package(copy) == bundle
    assert (bundle / "contract.yaml").stat().st_mtime_ns == before


def test_estimated_inputs_travel(tmp_path: Path) -> None:
    torch.manual_seed(0)
    task = velocity_flat(ANYMAL_C).replace(estimators=("root_lin_vel_b",))
    package = export_leapp(task, nn.Linear(48, 12), tmp_path / "walk.leapp", checkpoint_sha256="ab" * 32)
    contract = Contract.load(bundle_of_package(package))
    assert contract.estimated == ("base_lin_vel",)
    assert "robot_root_lin_vel_b" in {tensor.name for tensor in LeappPackage.load(package).inputs}


def test_nothing_of_this_machine_is_in_the_package(package: Path) -> None:
    for path in package.rglob("*"):
        if path.is_file():
            assert b"gaitway_sim2real/" not in path.read_bytes(), path
            assert path.stat().st_mode & 0o044 == 0o044, path
    assert not (package / "log.txt").exists()


def test_a_graph_that_does_not_replay_the_recording_is_refused(copy: Path) -> None:
    """Initial values that leapp would start from, changed: the first step after a reset differs."""
    from safetensors.numpy import load_file, save_file

    path = next(copy.glob("*.safetensors"))
    values = load_file(path)
    started = next(name for name in values if name.endswith("started_in"))
    save_file({**values, started: np.ones_like(values[started])}, path)
    with pytest.raises(LeappError, match=r"does not compute what its recording says: joint_pos_target"):
        bundle_of_package(copy)


def test_an_edited_model_is_refused(copy: Path) -> None:
    path = next(copy.glob("*.onnx"))
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(LeappError, match=r"is not the file that .*yaml describes"):
        bundle_of_package(copy)


def test_a_missing_file_is_named(copy: Path) -> None:
    next(copy.glob("*.safetensors")).unlink()
    with pytest.raises(LeappError, match=r"lacks .*_initial_values.safetensors"):
        bundle_of_package(copy)


def test_what_is_no_package_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("models: 3\n")
    assert not is_leapp(tmp_path)
    with pytest.raises(LeappError, match="is no LEAPP package"):
        LeappPackage.load(tmp_path)


def test_a_folder_of_others_is_not_overwritten(task: Task, actor: nn.Module, copy: Path) -> None:
    shutil.rmtree(copy / "gaitway")  # as Isaac Lab leaves it, among checkpoints
    with pytest.raises(ExportError, match=r"is not a LEAPP package of Gaitway's: choose another --out"):
        export_leapp(task, actor, copy, checkpoint_sha256="ab" * 32)


def test_an_unmeasurable_actor_is_refused_like_a_bundle(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="no robot measures"):
        export_leapp(velocity_flat(ANYMAL_C), nn.Linear(48, 12), tmp_path / "out", checkpoint_sha256="ab" * 32)
    assert not list(tmp_path.iterdir())


@pytest.mark.hostile("untrusted files")
@pytest.mark.parametrize(("key", "value"), [("name", None), ("name", {}), ("dtype", {}), ("kind", {})])
def test_a_tensor_that_is_not_described_in_words_is_refused(copy: Path, key: str, value: object) -> None:
    path = next(copy.glob("*.yaml"))
    data = yaml.safe_load(path.read_text())
    next(iter(data["models"].values()))["inputs"][0][key] = value
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(LeappError, match=rf"{key} of tensor .* expected text|not as leapp writes it"):
        bundle_of_package(copy)


def test_a_policy_that_estimates_and_whose_command_is_corrected_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The correction is in the package's graph; the estimate, which is written to no robot, is not."""
    task, actor = estimating()
    table = torch.zeros(3, NUM_FEATURES)
    table[:, 9:12] = 0.1 * torch.eye(3)

    def calibrated(task: Task, actor: nn.Module) -> SignalPolicy:
        return SignalPolicy(task, actor, CommandCalibration(table, torch.ones(3), 1.2)).eval()

    monkeypatch.setattr(export, "calibrated", calibrated)
    package = export_leapp(task, actor, tmp_path / "walk.leapp", checkpoint_sha256="ab" * 32)
    ours = Contract.load(package / "gaitway")
    contract = OnboardPolicy(bundle_of_package(package, tmp_path / "bundle")).contract  # replays the recording
    assert ours.estimates == ("estimated_base_lin_vel",) and contract.estimates == ()
    assert contract.command_calibration == ours.command_calibration is not None
