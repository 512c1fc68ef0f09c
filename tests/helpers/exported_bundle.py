"""One small exported bundle for the whole session, and copies of it to tamper with."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from gaitway_onboard.bundle.contract import Contract, sha256
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.spec import Task
from gaitway_tasks.velocity import blind, velocity_flat
from once import exported_once
from torch import nn

HISTORY = 3


@pytest.fixture(scope="session")
def task() -> Task:
    return blind(velocity_flat(ANYMAL_C), HISTORY)


@pytest.fixture(scope="session")
def actor() -> nn.Module:
    """A random policy whose actions are around one half, so that errors in scale and order show."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(45 * HISTORY, 32), nn.ELU(), nn.Linear(32, 12))


@pytest.fixture(scope="session")
def exported(task: Task, actor: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read-only: use ``bundle`` to change something."""
    return exported_once(tmp_path_factory, task, actor, checkpoint_sha256="ab" * 32)


@pytest.fixture
def bundle(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "bundle"))


@pytest.fixture
def reseal() -> Callable[..., None]:
    """Make a changed bundle consistent again, to reach the checks behind the hashes."""

    def write(bundle: Path, **changes: object) -> None:
        contract = Contract.load(bundle)
        files = {name: sha256((bundle / name).read_bytes()) for name in contract.files}
        dataclasses.replace(contract, **{"files": files, **changes}).save(bundle)

    return write


@pytest.fixture(scope="session")
def golden(exported: Path) -> dict[str, np.ndarray]:
    with np.load(exported / "golden.npz") as archive:
        return dict(archive)


@pytest.fixture
def hostile_folder(tmp_path: Path) -> Path:
    """A folder with a module named as one of the standard library's; imported, it leaves a file ``ran``."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    (folder / "json.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\n")
    return folder
