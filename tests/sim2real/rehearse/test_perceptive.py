"""A policy that reads the heights around it: rehearsed with a simulated depth map, refused where nothing gives them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from gaitway_onboard.control.controller import Mode
from gaitway_onboard.interface import DeployError
from gaitway_onboard.safety.preflight import check_bundle
from gaitway_sim2real.digital_twin.quirks import SENSORS
from gaitway_sim2real.hardware import hardware_from
from gaitway_sim2real.rehearse import suite
from gaitway_sim2real.rehearse.faults import TROUBLES
from gaitway_sim2real.rehearse.stage import Stage
from gaitway_sim2real.rehearse.suite import RehearsalError, Settings, rehearse_bundle
from gaitway_sim2real.rehearse.verdict import FAULTS
from gaitway_tasks.mdp import observations
from gaitway_tasks.robots import GO2
from gaitway_tasks.spec import HeightScanner, ObservationTerm
from gaitway_tasks.terrain import read_ground
from gaitway_tasks.velocity import velocity_flat
from once import exported_once
from torch import nn


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It stands, whatever it sees: velocity and 15 heights are read with weight zero."""
    task = velocity_flat(GO2)
    group = task.observations["policy"]
    terms = {name: term for name, term in group.terms.items() if name != "base_lin_vel"}
    terms["height_scan"] = ObservationTerm(func=observations.height_scan, params={"sensor": "scanner"})
    task = task.replace(
        observations={"policy": dataclasses.replace(group, terms=terms)},
        height_scanners={"scanner": HeightScanner(resolution=0.4, size=(1.6, 0.8))},
        estimators=("height_scan",),
    )
    actor = nn.Linear(45 + 15, 12)
    torch.nn.init.zeros_(actor.weight)
    torch.nn.init.zeros_(actor.bias)
    return exported_once(tmp_path_factory, task, actor, checkpoint_sha256="ab" * 32)


@pytest.mark.slow
def test_its_policy_runs_on_late_and_noisy_heights(bundle: Path) -> None:
    stage, seen = Stage(bundle, hardware_from(GO2), quirks=SENSORS, ground=read_ground("kerbs:0.1")), []
    performance = stage.perform(
        lambda seconds: (0.0, 0.0, 0.0), 0.3, on_period=lambda period: seen.append(period.signals.height_scan)
    )
    assert performance.report is not None and performance.report.policy_periods == 15, performance.outcome
    heights = np.array([scan for scan in seen if scan is not None])
    assert heights.shape[1] == 15 and 0.005 < np.diff(heights[::10], axis=0).std() < 0.05


def test_it_is_refused_where_no_heights_come_with_the_fix(bundle: Path) -> None:
    with pytest.raises(DeployError, match=r"height_scan.*docs/ground\.md"):
        check_bundle(bundle, hardware_from(GO2), i_know=True)
    with pytest.raises(RehearsalError, match=r"height_scan.*not on the wire of unitree-go2.*--no-dds"):
        rehearse_bundle(bundle, hardware_from(GO2), Settings(), wire=lambda: iter(()))


def test_a_rehearsal_says_whose_heights_they_were(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silence = next(trouble for trouble in TROUBLES if trouble.name == "silence")
    monkeypatch.setattr(Settings, "troubles", [dataclasses.replace(silence, modes=(Mode.RAMP,))])
    monkeypatch.setattr(suite, "TROUBLES", Settings.troubles)
    rehearsal, _ = rehearse_bundle(bundle, hardware_from(GO2), Settings(jobs=1), groups=(FAULTS,))
    assert any("0.1 s late and with 0.02 m of noise" in note for note in rehearsal.notes)
