"""Diagnosis around the checks: plain recordings of bundles, other policies, bad input, the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from gaitway_sim2real.diagnose import diagnose_bundle
from gaitway_sim2real.diagnose.record import record_bundle
from gaitway_tasks.recording import Recording, RecordingError
from gaitway_tasks.spec import Task
from sim2real.diagnose.cases import with_drives
from sim2real.diagnose.walkers import Trample, make_actor, record

from gaitway.cli import main

Walker = tuple[Task, Trample, Path]
pytestmark = pytest.mark.parametrize("walker", ["go2"], indirect=True, scope="session")


@pytest.fixture(scope="module")
def plain(walker: Walker) -> Recording:
    return record_bundle(walker[2], seconds=2.0, envs=3, seed=1)


def test_a_bundle_recorded_in_plain_mujoco_is_itself(walker: Walker, plain: Recording, tmp_path: Path) -> None:
    diagnosis = diagnose_bundle(walker[2], plain.save(tmp_path / "rollout"))
    assert diagnosis.findings == (), diagnosis.summary()
    assert any("0.00%" in line for line in diagnosis.checks)


def test_another_policy_is_named(walker: Walker, tmp_path: Path) -> None:
    task, _, bundle = walker
    recording = record(task, make_actor(task, seed=9), steps=80, envs=4)
    diagnosis = diagnose_bundle(bundle, recording.save(tmp_path / "rollout"))
    assert diagnosis.causes == ("policy",), diagnosis.summary()


def test_exploration_noise_is_not(walker: Walker, tmp_path: Path) -> None:
    task, actor, bundle = walker
    generator = torch.Generator().manual_seed(0)
    noisy = record(task, actor, steps=100, envs=4, emit=lambda a: a + 0.03 * torch.randn(a.shape, generator=generator))
    diagnosis = diagnose_bundle(bundle, noisy.save(tmp_path / "rollout"))
    assert diagnosis.findings == (), diagnosis.summary()


def test_wiring_is_found_by_motion_alone(walker: Walker, tmp_path: Path) -> None:
    """Two motors swapped behind the recorder's back: nothing but the motion shows it."""
    task, actor, bundle = walker
    order = list(range(task.robot.num_joints))
    order[1], order[2] = 2, 1
    recording = record(task, actor, act=lambda a: a[:, order])
    unaware = replace(recording, joint_pos_target=None)
    diagnosis = diagnose_bundle(bundle, unaware.save(tmp_path / "rollout"))
    assert diagnosis.causes == ("joint_order",), diagnosis.summary()
    names = task.robot.joint_names
    assert f"{names[0]}, {names[2]}, {names[1]}" in diagnosis.findings[0].fix


def test_a_missing_term_and_a_shorter_history(walker: Walker, plain: Recording, tmp_path: Path) -> None:
    bundle = walker[2]
    lacking = replace(plain, observation=plain.observation[..., 9:])
    diagnosis = diagnose_bundle(bundle, lacking.save(tmp_path / "rollout"))
    assert diagnosis.causes == ("observation_size",)
    assert "it lacks some" in diagnosis.findings[0].what
    width = plain.observation.shape[2] // 3
    dims = [3, 3, 3, 3, 12, 12, 12]
    starts = np.cumsum([0, *dims[:-1]])
    newest = np.concatenate([3 * s + 2 * d + np.arange(d) for s, d in zip(starts, dims, strict=True)])
    single = replace(plain, observation=plain.observation[..., newest])
    assert single.observation.shape[2] == width
    diagnosis = diagnose_bundle(bundle, single.save(tmp_path / "rollout"))
    assert diagnosis.causes == ("history_layout",)
    assert diagnosis.findings[0].fix == "history_length should be 1"


def test_recordings_that_cannot_be_compared(walker: Walker, plain: Recording, tmp_path: Path) -> None:
    bundle = walker[2]
    for changed, message in (
        ({"joint_names": ("x", *plain.joint_names[1:])}, "lacks .*; the contract does not know x"),
        ({"control_dt": 0.01}, "control_dt is 0.01 s, the bundle's 0.02"),
        ({"action": plain.action[..., :5]}, "action has 5 columns"),
        ({"quat_order": "xyzw"}, "as 'wxyz' it does"),
    ):
        with pytest.raises(RecordingError, match=message):
            diagnose_bundle(bundle, replace(plain, **changed).save(tmp_path / "rollout"))


def test_another_order_of_the_recorded_joints_is_no_mismatch(walker: Walker, plain: Recording, tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(len(plain.joint_names))
    mixed = replace(
        plain,
        joint_names=tuple(plain.joint_names[i] for i in order),
        root_quat=np.roll(plain.root_quat, -1, axis=-1),
        quat_order="xyzw",
        **{name: getattr(plain, name)[..., order] for name in ("joint_pos", "joint_vel", "joint_pos_target")},
    )
    assert diagnose_bundle(walker[2], mixed.save(tmp_path / "rollout")).findings == ()


def test_the_commands(walker: Walker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, actor, bundle = walker
    out, said = tmp_path / "made" / "rollout.npz", tmp_path / "said.json"
    assert main(["record", str(bundle), "--out", str(out), "--seconds", "1.5", "--envs", "2"]) == 0
    assert "75 steps of 2 robots" in capsys.readouterr().out
    assert main(["diagnose", str(bundle), "--recording", str(out)]) == 0
    assert "NO MISMATCH FOUND" in capsys.readouterr().out
    stiff = record(with_drives(task, stiffness=1.4), actor, steps=100, envs=6).save(tmp_path / "stiff")
    assert main(["diagnose", str(bundle), "--recording", str(stiff), "--json", str(said)]) == 1
    assert "MISMATCH 1: GAINS" in capsys.readouterr().out
    data = json.loads(said.read_text())
    assert data["mismatch"] and data["findings"][0]["cause"] == "gains"
    assert data["findings"][0]["numbers"]["stiffness"] == pytest.approx(1.4, rel=0.1)
    for arguments, message in (
        (["diagnose", str(bundle), "--recording", str(tmp_path / "no.npz")], "no recording at"),
        (["record", str(bundle), "--out", str(tmp_path / "x.csv")], "a recording is an .npz file"),
        (["record", str(bundle), "--out", str(out), "--seconds", "0"], "--seconds 0"),
        (["record", str(bundle), "--out", str(out), "--envs", "0"], "--envs 0"),
    ):
        assert main(arguments) == 2
        assert message in capsys.readouterr().err
