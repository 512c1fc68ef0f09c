"""Fixtures that take long to make are made once in a session of tests, by the first worker that asks for them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from gaitway_sim2real.bundle.export import export_bundle
from gaitway_tasks.spec import Task
from torch import nn


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that all workers share, filled by ``make(folder)``. Read-only: copy it to change something."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, ready = base / name, base / f"{name}.ready"
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            ready.touch()
    return folder


def exported_once(factory: pytest.TempPathFactory, task: Task, actor: nn.Module, *, checkpoint_sha256: str) -> Path:
    """The bundle of ``task`` and ``actor``, exported once for all tests that ask for the same. Read-only."""
    key = hashlib.sha256(f"{type(actor).__qualname__} {actor} {checkpoint_sha256}".encode())
    key.update(re.sub(r" at 0x[0-9a-f]+", "", repr(task)).encode())  # where a function is differs between workers
    for name, value in actor.state_dict().items():
        key.update(name.encode() + value.detach().to(torch.float64).numpy().tobytes())

    def export(folder: Path) -> None:
        export_bundle(task, actor, folder / "bundle", checkpoint_sha256=checkpoint_sha256)

    return made_once(factory, f"bundle-{key.hexdigest()[:16]}", export) / "bundle"
