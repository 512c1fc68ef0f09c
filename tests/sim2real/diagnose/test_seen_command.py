"""A bundle that limits and corrects its command is compared with what its policy saw."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.bundle import export
from gaitway_sim2real.bundle.calibration import NUM_FEATURES, CommandCalibration
from gaitway_sim2real.bundle.signal_policy import SignalPolicy
from gaitway_sim2real.diagnose import diagnose_bundle
from gaitway_sim2real.diagnose.record import record_bundle
from gaitway_sim2real.diagnose.seen_command import seen, told
from gaitway_tasks.robots import GO2
from gaitway_tasks.spec import Task
from sim2real.diagnose.walkers import Trample, make_actor, make_task, record
from torch import nn

Walker = tuple[Task, Trample, Path]


@pytest.fixture(scope="module")
def walker(tmp_path_factory: pytest.TempPathFactory) -> Walker:
    """With corrections of up to a fifth of the command, drawn at random."""
    task = make_task(GO2)
    name, command = next(iter(task.commands.items()))
    task, table = replace(task, commands={name: replace(command, acceleration=(2.5, 2.5, 4.0))}), torch.zeros(3, 51)
    table[:, 9:18] = 0.2 * (torch.rand(3, 9, generator=torch.Generator().manual_seed(4)) - 0.5)
    assert table.shape[1] == NUM_FEATURES
    actor = make_actor(task)

    def calibrated(task: Task, actor: nn.Module) -> SignalPolicy:
        return SignalPolicy(task, actor, CommandCalibration(table, torch.ones(3), 1.2)).eval()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "calibrated", calibrated)
        bundle = export.export_bundle(
            task, actor, tmp_path_factory.mktemp("calibrated") / "bundle", checkpoint_sha256="ab" * 32
        )
    return task, actor, bundle


def test_the_world_that_it_learns_in_corrects_nothing(walker: Walker, tmp_path: Path) -> None:
    task, actor, bundle = walker
    recording = record(task, actor, steps=120, envs=4)
    diagnosis = diagnose_bundle(bundle, recording.save(tmp_path / "rollout"))
    assert diagnosis.findings == (), diagnosis.summary()
    assert "policy: the graph gives the recorded actions" in diagnosis.checks


def test_the_bundle_recorded_in_plain_mujoco_is_itself(walker: Walker, tmp_path: Path) -> None:
    bundle = walker[2]
    recording = record_bundle(bundle, seconds=5.0, envs=3, seed=1)
    diagnosis = diagnose_bundle(bundle, recording.save(tmp_path / "rollout"))
    assert diagnosis.findings == (), diagnosis.summary()
    assert "policy: the graph gives the recorded actions" in diagnosis.checks


def test_another_policy_is_still_named(walker: Walker, tmp_path: Path) -> None:
    task, _, bundle = walker
    recording = record(task, make_actor(task, seed=9), steps=80, envs=4)
    assert diagnose_bundle(bundle, recording.save(tmp_path / "rollout")).causes == ("policy",)


def test_commands_are_corrected_and_found_again(walker: Walker) -> None:
    contract = Contract.load(walker[2])
    command = np.random.default_rng(0).uniform(-1.0, 1.0, (7, 5, 3)).astype(np.float32)
    corrected = seen(contract, command.reshape(-1, 3)).reshape(command.shape)
    assert 0.02 < np.abs(corrected - command).mean() < 0.2
    found, known = told(contract, corrected)
    assert known.mean() > 0.9, "but for those that the largest command cuts"
    np.testing.assert_allclose(
        seen(contract, found.reshape(-1, 3).astype(np.float32)).reshape(command.shape)[known], corrected[known],
        atol=1e-5,
    )  # fmt: skip
