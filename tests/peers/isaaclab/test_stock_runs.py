"""Run folders of Isaac Lab's velocity tasks, written beside this environment for the import to be tested on."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from stock_runs import STEPS, TASKS, VARIANTS, N, load, write_stock, write_variant

RUNS = Path(sys.prefix) / "stock_runs"


def fresh(name: str) -> Path:
    shutil.rmtree(RUNS / name, ignore_errors=True)
    (RUNS / name).mkdir(parents=True)
    return RUNS / name


def check(folder: Path) -> dict[str, np.ndarray]:
    reference = dict(np.load(folder / "reference.npz"))
    joints = len(reference["joint_names"])
    assert reference["target"].shape == (STEPS, N, joints)
    assert np.isfinite(reference["target"]).all()
    # The policy answers to what it sees: no two steps, no two robots alike.
    moved = reference["target"].reshape(STEPS * N, joints)
    assert len(np.unique(moved.round(7), axis=0)) == STEPS * N
    checkpoint = torch.load(folder / "model_300.pt", weights_only=True)
    assert checkpoint["iter"] == 300 and "model_state_dict" in checkpoint
    return reference


@pytest.mark.parametrize("task", TASKS)
def test_stock_task(task):
    folder = fresh(task)
    write_stock(task, folder)
    reference = check(folder)
    assert ("height_scan" in reference) == ("Rough" in task)
    written = yaml.unsafe_load((folder / "params" / "env.yaml").read_text())
    assert written["actions"]["joint_pos"]["scale"] == load(task)[0].actions.joint_pos.scale


@pytest.mark.parametrize("kind", VARIANTS)
def test_variant(kind):
    folder = fresh(kind)
    write_variant(kind, folder)
    reference = check(folder)
    if kind == "recurrent":
        assert reference["observation"].shape[2] == 3 * 48
