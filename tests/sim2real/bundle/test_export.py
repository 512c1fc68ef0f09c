"""Exported policies equal the trained ones, or are refused."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
import yaml
from gaitway_files.reading import FileError
from gaitway_onboard.bundle.contract import Contract, verify_files
from gaitway_onboard.bundle.parts import MEASURED, OUTPUTS
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.interface import Signals
from gaitway_sim2real.bundle import export
from gaitway_sim2real.bundle.contracts import ExportError
from gaitway_sim2real.bundle.export import export_bundle
from gaitway_sim2real.bundle.model_files import copy_model
from gaitway_sim2real.bundle.signal_policy import SignalPolicy
from gaitway_tasks.mdp import observations
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import ANYMAL_C, ROBOTS
from gaitway_tasks.spec import ObservationTerm, Task
from gaitway_tasks.velocity import blind, velocity_flat
from torch import nn

SHA = "cd" * 32


def random_signals(rng: np.random.Generator, batch: int) -> dict[str, np.ndarray]:
    quat = rng.normal(size=(batch, 4))
    return {
        "joint_pos": rng.normal(size=(batch, 12)).astype(np.float32),
        "joint_vel": 5 * rng.normal(size=(batch, 12)).astype(np.float32),
        "imu_quat_wxyz": (quat / np.linalg.norm(quat, axis=1, keepdims=True)).astype(np.float32),
        "gyro": rng.normal(size=(batch, 3)).astype(np.float32),
        "command": rng.uniform(-1, 1, size=(batch, 3)).astype(np.float32),
    }


def frame_by_hand(signals: dict[str, np.ndarray], last_action: np.ndarray) -> np.ndarray:
    """The blind task's observation, written out independently: order, gravity from a rotation matrix, offsets."""
    w, x, y, z = signals["imu_quat_wxyz"].T.astype(float)
    gravity = -np.stack((2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)), 1)
    joint_pos = signals["joint_pos"] - np.array(ANYMAL_C.default_joint_pos)
    return np.concatenate(
        (signals["gyro"], gravity, signals["command"], joint_pos, signals["joint_vel"], last_action), 1
    )


@pytest.mark.parametrize("batch", [1, 7])
def test_graph_assembles_the_observation_and_keeps_history(exported: Path, actor: nn.Module, batch: int) -> None:
    """A rolled sequence with resets of single rows in the middle, against an independent numpy bookkeeping."""
    history, dims = 3, (3, 3, 3, 12, 12, 12)
    session = ort.InferenceSession(exported / "policy.onnx")
    rng = np.random.default_rng(batch)
    state = np.zeros((batch, session.get_inputs()[-1].shape[1]), np.float32)
    frames: list[list[np.ndarray]] = [[] for _ in range(batch)]
    last_action = np.zeros((batch, 12))
    for step in range(50):
        if step == 20:
            state[-1], frames[-1], last_action[-1] = 0.0, [], 0.0
        signals = random_signals(rng, batch)
        target, action, state = session.run(list(OUTPUTS), {**signals, "state": state})
        for row, frame in enumerate(frame_by_hand(signals, last_action)):
            frames[row] = (frames[row] + [frame] if frames[row] else [frame] * history)[-history:]
        terms = [np.split(np.array(rows), np.cumsum(dims)[:-1], axis=1) for rows in frames]
        observation = np.array([np.concatenate([part.flatten() for part in parts]) for parts in terms])
        with torch.inference_mode():
            expected = actor(torch.tensor(observation, dtype=torch.float32)).numpy()
        np.testing.assert_allclose(action, expected, atol=1e-5)
        np.testing.assert_allclose(target, np.array(ANYMAL_C.default_joint_pos) + 0.5 * expected, atol=1e-5)
        last_action = action


def test_clip_scale_and_no_history_are_in_the_graph(task: Task, tmp_path: Path) -> None:
    group = task.observations["policy"]
    terms = {name: dataclasses.replace(term) for name, term in group.terms.items()}
    terms["joint_vel"] = dataclasses.replace(terms["joint_vel"], clip=(-1.0, 2.0), scale=0.25)
    changed = task.replace(observations={"policy": dataclasses.replace(group, terms=terms, history_length=1)})
    picks_joint_vel = nn.Linear(45, 12, bias=False)
    picks_joint_vel.weight.data = torch.eye(45)[21:33]
    bundle = export_bundle(changed, picks_joint_vel, tmp_path / "b", checkpoint_sha256=SHA)
    contract = Contract.load(bundle)
    assert contract.state_dim == 13
    assert (contract.observation[4].clip, contract.observation[4].scale) == ((-1.0, 2.0), 0.25)
    signals = random_signals(np.random.default_rng(0), 4)
    action = ort.InferenceSession(bundle / "policy.onnx").run(
        ["action"], {**signals, "state": np.zeros((4, 13), np.float32)}
    )[0]
    np.testing.assert_allclose(action, 0.25 * signals["joint_vel"].clip(-1.0, 2.0), atol=1e-6)


def test_the_graph_follows_a_command_no_faster_than_the_contract_says(
    task: Task, actor: nn.Module, exported: Path, tmp_path: Path
) -> None:
    """The graph's answer to a jump is that of an unlimited one to a ramp of the same slope; a reset starts at zero."""
    command = dataclasses.replace(task.commands["base_velocity"], acceleration=(2.5, 1.0, 5.0))
    limited = export_bundle(
        task.replace(commands={"base_velocity": command}), actor, tmp_path / "limited", checkpoint_sha256="00" * 32
    )
    assert Contract.load(limited).command_acceleration == (2.5, 1.0, 5.0)
    assert Contract.load(exported).command_acceleration is None
    first, second = OnboardPolicy(limited), OnboardPolicy(exported)
    signals = Signals(np.array(task.robot.default_joint_pos), np.zeros(12), np.array([1.0, 0, 0, 0]), np.zeros(3), 0.0)
    wanted, change = np.array([0.3, -0.05, -1.0]), 0.02 * np.array([2.5, 1.0, 5.0])
    for _ in range(2):
        ramp = np.zeros(3)
        for _ in range(12):
            ramp = ramp + np.clip(wanted - ramp, -change, change)
            np.testing.assert_allclose(first.step(signals, wanted), second.step(signals, ramp), atol=1e-5)
        assert (ramp == wanted).all()
        first.reset()
        second.reset()


def test_the_graph_keeps_the_clock_of_a_robot_that_settles() -> None:
    """As training does: for ``settle`` seconds after its limited command is short."""
    task = get_task("velocity-flat-go2-blind", "cpu")
    command = dataclasses.replace(task.commands["base_velocity"], acceleration=(1.05, 1.0, 1.0), settle=0.1)
    group = dataclasses.replace(task.observations["policy"], history_length=1)
    policy = SignalPolicy(
        task.replace(commands={"base_velocity": command}, observations={**task.observations, "policy": group}),
        nn.Identity(),
    )
    widths, state = policy.input_widths, torch.zeros(1, policy.state_dim)
    signals = {name: torch.zeros(1, width) for name, width in widths.items() if name != "state"}
    signals["imu_quat_wxyz"][:, 0] = 1.0
    first = sum(width for name, width in policy.manager.dims.items() if name != "gait_phase")
    assert list(policy.manager.dims)[-1] == "gait_phase"
    shown = []
    for wanted in (0.2, 0.0):
        signals["command"] = torch.tensor([[wanted, 0.0, 0.0]])
        for _ in range(15):
            observation, kept = policy.observation(*signals.values(), state)
            state = torch.cat((torch.ones(1, 1), torch.zeros(1, 12), kept), 1)
            shown.append(bool(observation[0, first:].any()))
    # It starts once the command is longer than 0.1 m/s. After the order to stop it goes on for the four steps in which
    # the command still is, and for four more, until 0.1 s have passed.
    assert shown == [False] * 4 + [True] * 11 + [True] * 8 + [False] * 7


def test_the_graph_is_one_small_file_without_traces_of_its_origin(exported: Path) -> None:
    content = (exported / "policy.onnx").read_bytes()
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    assert [item.name for item in model.graph.input] == [*MEASURED, "state"]
    assert [item.name for item in model.graph.output] == list(OUTPUTS)
    assert all(item.type.tensor_type.shape.dim[0].dim_param for item in (*model.graph.input, *model.graph.output))
    assert not any(tensor.external_data for tensor in model.graph.initializer)
    assert str(Path.home()).encode() not in content and b"signal_policy.py" not in content
    weights = 4 * (45 * 3 * 32 + 32 + 32 * 12 + 12)
    assert len(content) < weights + 30_000


def test_a_bundle_is_complete_and_reproducible_and_replaces_another_whole(
    exported: Path, bundle: Path, task: Task, actor: nn.Module, reseal: Callable[..., None]
) -> None:
    assert sorted(path.name for path in exported.iterdir()) == [
        "contract.yaml", "golden.npz", "io_descriptors.yaml", "policy.onnx", "robot.xml", "robot_license.txt",
    ]  # fmt: skip
    (bundle / "validation.json").write_text("{}")  # belongs to the old policy
    for name in ("policy.onnx", "golden.npz", "io_descriptors.yaml", "robot.xml"):
        (bundle / name).write_bytes(b"old")
    reseal(bundle, checkpoint_sha256=SHA)
    export_bundle(task, actor, bundle, checkpoint_sha256="ab" * 32)
    assert Contract.load(bundle) == Contract.load(exported) and verify_files(exported) == verify_files(bundle)
    assert not (bundle / "validation.json").exists()
    assert (exported / "robot.xml").read_bytes() == ANYMAL_C.mjcf.read_bytes()
    licence = ANYMAL_C.mjcf.with_name("LICENSE").read_bytes()
    assert verify_files(exported)["robot_license.txt"] == licence and b"ANYbotics AG" in licence
    assert [path.name for folder in (exported, bundle) for path in folder.parent.iterdir()] == ["bundle", "bundle"]


@pytest.mark.parametrize("robot", ROBOTS)
def test_every_robot_takes_its_notice_into_a_bundle(robot: str, tmp_path: Path) -> None:
    copy_model(ROBOTS[robot].mjcf, tmp_path)
    notice = (tmp_path / "robot_license.txt").read_text("utf-8")
    assert notice == ROBOTS[robot].mjcf.with_name("LICENSE").read_text("utf-8")
    assert re.search(r"Copyright|BSD|Apache|MIT", notice)


def test_a_model_without_a_licence_has_none_in_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "spot.xml").write_text("<mujoco/>")
    (tmp_path / "LICENSE").touch()
    assert copy_model(tmp_path / "spot.xml", tmp_path / "bundle").read_text() == "<mujoco/>"
    assert [path.name for path in (tmp_path / "bundle").iterdir()] == ["robot.xml"]
    (tmp_path / "LICENSE").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(FileError, match=r"LICENSE.*1 MiB"):
        copy_model(tmp_path / "spot.xml", tmp_path / "bundle")


def test_golden_sequence_is_plausible_and_has_a_reset(golden: dict[str, np.ndarray]) -> None:
    steps = len(golden["state"])
    assert steps >= 64 and golden["reset"].sum() == 2 and golden["reset"][0] and golden["reset"][steps // 2]
    assert not golden["state"][golden["reset"]].any() and golden["state"][~golden["reset"]].any(axis=1).all()
    np.testing.assert_array_equal(
        golden["next_state"][:-1][~golden["reset"][1:]], golden["state"][1:][~golden["reset"][1:]]
    )
    np.testing.assert_allclose(np.linalg.norm(golden["imu_quat_wxyz"], axis=1), 1.0, atol=1e-6)
    slope = np.gradient(golden["joint_pos"], 0.02, axis=0)[1:-1]
    assert np.corrcoef(slope.ravel(), golden["joint_vel"][1:-1].ravel())[0, 1] > 0.99


def test_io_descriptors_have_isaac_labs_sections_and_values(exported: Path) -> None:
    text = (exported / "io_descriptors.yaml").read_text()
    described = yaml.safe_load(text)
    assert "&id" not in text
    assert sorted(described) == ["actions", "articulations", "observations", "scene"]
    assert described["scene"] == {"decimation": 4, "dt": 0.02, "physics_dt": 0.005}
    [action] = described["actions"]
    assert action["joint_names"] == list(ANYMAL_C.joint_names) and action["scale"] == 0.5
    assert action["offset"] == list(ANYMAL_C.default_joint_pos) and action["shape"] == [12]
    policy = {term["extras"]["term"]: term for term in described["observations"]["policy"]}
    assert list(policy)[:2] == ["base_ang_vel", "projected_gravity"]
    assert policy["base_ang_vel"]["extras"]["units"] == "rad/s"
    assert policy["base_ang_vel"]["observation_type"] == "RootState"
    assert policy["joint_pos"]["full_path"] == "isaaclab.envs.mdp.observations.joint_pos_rel"
    assert policy["joint_pos"]["joint_pos_offsets"] == list(ANYMAL_C.default_joint_pos)
    assert policy["actions"]["overloads"]["history_length"] == 3
    robot = described["articulations"]["robot"]
    assert robot["default_joint_stiffness"] == [40.0] * 12 and len(robot["default_joint_armature"]) == 12


def test_an_actor_that_reads_base_velocity_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"'base_lin_vel' reads root_lin_vel_b.*velocity-flat-anymal-c-blind"):
        export_bundle(velocity_flat(ANYMAL_C), nn.Linear(48, 12), tmp_path / "b", checkpoint_sha256=SHA)
    assert not list(tmp_path.iterdir())


def test_an_undeclared_term_counts_as_unmeasurable(task: Task, tmp_path: Path) -> None:
    def secret(world: object) -> torch.Tensor:
        return torch.zeros(1, 1)

    group = task.observations["policy"]
    spied = dataclasses.replace(group, terms={**group.terms, "spy": ObservationTerm(func=secret)})
    with pytest.raises(ExportError, match="'spy' reads undeclared:secret"):
        export_bundle(
            task.replace(observations={"policy": spied}), nn.Linear(138, 12), tmp_path / "b", checkpoint_sha256=SHA
        )


def test_an_estimator_that_no_input_carries_is_not_silently_dropped(task: Task, tmp_path: Path) -> None:
    group = task.observations["policy"]
    tall = dataclasses.replace(group, terms={**group.terms, "height": ObservationTerm(func=observations.base_pos_z)})
    task = task.replace(observations={"policy": tall}, estimators=("root_pos_w",))
    with pytest.raises(ExportError, match="root_pos_w from an estimator, which a bundle has no input for"):
        export_bundle(task, nn.Linear(138, 12), tmp_path / "b", checkpoint_sha256=SHA)


def test_foreign_folders_are_left_alone(task: Task, actor: nn.Module, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("do not lose me")
    with pytest.raises(ExportError, match="not a bundle"):
        export_bundle(task, actor, tmp_path / "thesis", checkpoint_sha256=SHA)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ExportError, match="is a file"):
        export_bundle(task, actor, tmp_path / "file", checkpoint_sha256=SHA)
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "do not lose me"


@pytest.fixture
def known_graph(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph of ``actor`` stands for any, where what comes after it is looked at."""
    monkeypatch.setattr(export, "_export_graph", lambda policy, path: shutil.copy(exported / "policy.onnx", path))


class Broken(nn.Module):
    """An actor whose weights hold a NaN."""

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return observation[:, :12] * float("nan")


@pytest.mark.usefixtures("known_graph")
def test_a_failed_export_leaves_the_old_bundle_and_nothing_else(task: Task, bundle: Path) -> None:
    before = verify_files(bundle)
    with pytest.raises(ExportError, match="differs by nan"):
        export_bundle(task, Broken(), bundle, checkpoint_sha256=SHA)
    assert verify_files(bundle) == before
    assert [path.name for path in bundle.parent.iterdir()] == ["bundle"]


@pytest.mark.usefixtures("known_graph")
def test_a_model_of_several_files_is_one_in_a_bundle(task: Task, actor: nn.Module, tmp_path: Path) -> None:
    needy = tmp_path / "needy.xml"
    xml = ANYMAL_C.mjcf.read_text().replace(
        "<worldbody>",
        '<asset><mesh name="shell" file="shell.obj"/></asset>'
        '<worldbody><geom type="mesh" mesh="shell" contype="0" conaffinity="0"/>',
        1,
    )
    needy.write_text(xml)
    (tmp_path / "shell.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n")
    export_bundle(task.replace(robot=task.robot.replace(mjcf=needy)), actor, tmp_path / "b", checkpoint_sha256=SHA)
    (tmp_path / "shell.obj").unlink()
    copy, own = (mujoco.MjModel.from_xml_path(str(path)) for path in (tmp_path / "b" / "robot.xml", ANYMAL_C.mjcf))
    assert copy.body_mass.sum() == pytest.approx(own.body_mass.sum())


def test_unwritable_destination_is_one_clear_error(task: Task, actor: nn.Module, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ExportError, match="cannot write the bundle"):
        export_bundle(task, actor, tmp_path / "file" / "below", checkpoint_sha256=SHA)


def test_signal_policy_reads_only_what_a_robot_measures(actor: nn.Module) -> None:
    """The module has no field to read anything else from: a task that tries fails loudly, not with zeros."""
    with pytest.raises(AttributeError, match="root_lin_vel_b"):
        SignalPolicy(velocity_flat(ANYMAL_C), actor)
    assert SignalPolicy(blind(velocity_flat(ANYMAL_C), 3), actor).state_dim == 1 + 12 + 3 * 45


class FixedBatch(nn.Module):
    """A mistake that is easy to make: ``len`` of a tensor is a constant to the exporter."""

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(observation), 12) + observation[:, :12]


def test_an_actor_that_fixes_the_batch_size_is_refused(task: Task, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"on a batch of 1: |cannot be written as ONNX"):
        export_bundle(task, FixedBatch(), tmp_path / "b", checkpoint_sha256=SHA)
    assert not list(tmp_path.iterdir())
