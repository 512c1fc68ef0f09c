"""The arm of docs/examples/reacher as a package of somebody else, trained a little and exported."""

import shutil
import sys

import pytest
from gaitway_files import trust as trusting
from gaitway_tasks import registry
from gaitway_tasks.robots import known
from tree import ROOT

from gaitway.cli import main

EXAMPLE = ROOT / "docs/examples/reacher"
TASK = "reacher.tasks:REACH"
SMALL = ["num_envs=4", "agent.num_steps=8", "total_steps=64", "agent.optimizer.minibatches=1", "num_threads=1",
         "evaluation_episodes=2", "task.timing.episode_length_s=0.4"]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the package, which Python finds and nobody trusts."""
    path = tmp_path_factory.mktemp("arm")
    shutil.copytree(EXAMPLE / "reacher", path / "reacher")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(path), *sys.path])
        yield path
    for name in [name for name in sys.modules if name.partition(".")[0] == "reacher"]:
        del sys.modules[name]


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(trusting, "_trusted", set())
    monkeypatch.setattr(known, "_named", {})
    monkeypatch.setattr(registry, "_called", {})
    return folder


@pytest.fixture(scope="module")
def bundle(folder):
    """A policy of a few updates, exported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(trusting, "_trusted", set())
        assert main(["train", TASK, "--out", "run", *SMALL]) == 0
        assert main(["export", "run", "--out", "bundle"]) == 0
    return folder / "bundle"


@pytest.fixture
def task(here):
    from reacher.tasks import REACH

    return REACH
