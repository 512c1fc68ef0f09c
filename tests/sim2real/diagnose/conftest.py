"""One bundle per robot for the whole session: the export takes longer than all else."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gaitway_tasks.spec import Task
from once import exported_once
from sim2real.diagnose.walkers import ROBOTS, Trample, make_actor, make_task


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session", params=[pytest.param("anymal-c", marks=pytest.mark.slow), "go2"])
def walker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Task, Trample, Path]:
    """The right task, its actor and the bundle of both."""
    task = make_task(ROBOTS[request.param])
    actor = make_actor(task)
    return task, actor, exported_once(tmp_path_factory, task, actor, checkpoint_sha256="ab" * 32)
