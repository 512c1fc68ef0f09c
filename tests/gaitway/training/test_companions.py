"""Trainings in several processes of one machine: repeated, stopped and continued, and robbed of a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bit_by_bit import differences
from scripted_examinations import SMALL
from stopping import KillAfter, final_state

from gaitway.cli import main
from gaitway.errors import ConfigError
from gaitway.runs.folder import RunFolder, read_checkpoint
from gaitway.runs.rows import read_rows
from gaitway.train_config import resolve
from gaitway.training import loop as training

BLIND = "velocity-flat-anymal-c-blind"
TWO = [*SMALL, "processes=2"]


def train(path: Path, *more: str) -> int:
    resume = ["--resume"] if path.exists() else []
    return main(["train", BLIND, "--seed", "3", "--out", str(path), "--quiet", *resume, *TWO, *more])


@pytest.mark.slow
@pytest.mark.hostile("durability")
def test_a_training_that_was_stopped_ends_as_one_that_was_not(tmp_path, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert train(whole) == 0
    with monkeypatch.context() as patch:
        patch.setattr(training, "make_progress", lambda *_, **__: KillAfter(3, signal.SIGTERM))
        assert train(parts) == 143
    assert RunFolder.open(parts).record["steps"] == 384
    assert train(parts) == 0
    first, second = (final_state(RunFolder.open(path)) for path in (whole, parts))
    assert differences(first, second) == []
    (other,) = first["others"]
    assert differences(other["envs"], first["envs"]) != []  # robots of its own
    record = RunFolder.open(whole).record
    assert (record["processes"], record["steps"]) == (2, 1280)
    assert sum(row["length"] for row in read_rows(whole / "episodes.jsonl")) <= 1280  # none is counted twice


@pytest.mark.slow
@pytest.mark.hostile("durability")
@pytest.mark.parametrize("victim", ["companion", "first"])
def test_no_process_outlives_the_other(tmp_path, victim):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "gaitway", "train", BLIND, "--out", str(out), *TWO, "total_steps=1e7"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not list(out.glob("checkpoints/step_*.pt")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    (other,) = (int(word) for word in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    os.kill(other if victim == "companion" else process.pid, signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    if victim == "companion":
        assert process.returncode == 1 and "exit code -9" in said and "--resume" in said
        assert RunFolder.open(out).record["status"] == "failed"
    while Path(f"/proc/{other}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{other}").exists()


TERM = """
import sys

import torch

steps = 0


def late(world):
    global steps
    steps += 1
    breaks = sys.argv[0].endswith("companion.py") is {in_companion} and steps > 40
    return torch.full((world.num_envs,), float("nan") if breaks else 0.0)
"""


@pytest.mark.slow
@pytest.mark.hostile("durability")
@pytest.mark.parametrize("victim", ["companion", "first"])
def test_an_environment_that_fails_in_one_process_leaves_what_all_have_learnt(tmp_path, monkeypatch, capfd, victim):
    (tmp_path / "breaks_in_one.py").write_text(TERM.format(in_companion=victim == "companion"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "breaks_in_one", raising=False)
    run = tmp_path / "run"
    mine = "task.rewards.mine={func: 'breaks_in_one:late', weight: 1.0}"
    assert train(run, "checkpoint_interval=1000", mine) == (1 if victim == "companion" else 2)
    said = capfd.readouterr().err
    assert "reward 'mine' (breaks_in_one:late) is nan" in said
    record = RunFolder.open(run).record
    iterations = record["iterations"]
    assert record["status"] == "failed" and iterations >= 2
    (path,) = RunFolder.open(run).checkpoints()
    state = read_checkpoint(path)
    assert state["iteration"] == iterations and state["trainer"]["others"] == []
    (tmp_path / "breaks_in_one.py").write_text(TERM.format(in_companion=None))
    monkeypatch.delitem(sys.modules, "breaks_in_one")
    assert train(run) == 0
    assert RunFolder.open(run).record["status"] == "finished"


@pytest.mark.parametrize(
    ("task", "settings", "what"),
    [
        (BLIND, ["num_envs=255"], "num_envs=255 cannot be shared"),
        (BLIND, ["agent.decoupled=true"], "agent.decoupled .*processes=1"),
        ("arithmetic", [], "processes=2: .*processes=1"),
        ("frozen-lake", [], "'.*' learns in one process; use processes=1"),
    ],
)
def test_what_cannot_be_shared_is_refused(task, settings, what):
    agent = "q-learning" if task == "frozen-lake" else None
    with pytest.raises(ConfigError, match=what):
        resolve(task, agent=agent, overrides=["processes=2", *settings])


def test_two_cores_get_a_process_each_where_it_pays(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert resolve(BLIND, preset="cpu").processes == 2
    assert resolve(BLIND, preset="cpu").agent.optimizer.workers == 1
    assert resolve(BLIND, preset="cpu", overrides=["total_steps=100000"]).processes == 1
    assert resolve(BLIND, preset="cpu", overrides=["processes=1"]).agent.optimizer.workers == 2
    assert resolve(BLIND, preset="cpu", overrides=["agent.decoupled=true"]).processes == 1
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert resolve(BLIND, preset="cpu").processes == 1
