"""``make walk``: what it does again, what it does not, and how it ends."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from gaitway_sim2real import trial
from gaitway_sim2real.trial.scenario import Limit
from gaitway_velocity.scenarios import SCENARIOS
from gaitway_velocity.suite import SUITE
from scripted_examinations import SMALL, outcomes
from tree import ROOT

from gaitway import walk as walking
from gaitway.cli import main
from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import read_rows

HOLDS, BREAKS = Limit(metric="drift", value=1e9), Limit(metric="drift", value=0.0)


class Shell:
    """Runs commands in this process, and remembers their names; verdicts come in the given order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *verdicts: Limit):
        self.names: list[str] = []
        self.verdicts, self.patch = list(verdicts), monkeypatch
        self.whole = trial.validate_bundle

    def __call__(self, command: list[str]) -> int:
        self.names.append(command[0])
        if command[0] == "validate":
            standing = next(scenario for scenario in SCENARIOS if scenario.name == "standing")
            short = replace(standing, envs=2, seconds=0.4, limits=(self.verdicts.pop(0),))
            known = functools.partial(self.whole, scenarios=(short,))
            self.patch.setattr(trial, "validate_bundle", known)
            command = [*command, "--no-video"]
        if command[0] == "run":  # a film takes longer to draw than all the rest to do
            film = Path(command[command.index("--video") + 1])
            film.parent.mkdir(exist_ok=True)
            film.touch()
            return 1  # as of a robot that fell
        return main(command)


@pytest.mark.slow
def test_a_fail_trains_on_and_a_walk_that_is_done_is_left_alone(tmp_path, monkeypatch, capsys):
    outcomes(monkeypatch, {3, 6})
    shell, out = Shell(monkeypatch, BREAKS, HOLDS), tmp_path / "walk"
    assert walking.walk(out, 0, SMALL, shell) == 0
    assert shell.names == ["train", "export", "validate", "train", "export", "validate", "run"]
    said = capsys.readouterr().out.splitlines()
    assert said[1].startswith("Train: ") and said[2].startswith("$ gaitway train ")
    assert "policy of 384 steps, of 384; 3 examined, 1 tried on the suite" in said
    assert {row["stage"] for row in read_rows(out / "stages.jsonl")} == {"train", "export", "validate", "run"}
    assert "FAIL after 384 steps: training goes on, to 1,280 at most" in said
    assert any("least_steps=385" in line for line in said)
    assert said[-1] == "PASS: 1 of 1 required scenarios passed, after 768 steps, policy 2 of this run to be judged"
    assert RunFolder.open(out).record["reason"] == "good"

    shell.names.clear()
    assert walking.walk(out, 0, SMALL, shell) == 0
    assert shell.names == ["train"]
    assert "is finished" in (said := capsys.readouterr().out) and said.splitlines()[-1].startswith("PASS")


@pytest.mark.slow
def test_a_walk_that_fails_says_what_and_what_to_do(tmp_path, monkeypatch, capsys):
    outcomes(monkeypatch, {1}, suite=set())
    shell, out, settings = Shell(monkeypatch, BREAKS), tmp_path / "walk", [*SMALL, "total_steps=256"]
    assert walking.walk(out, 0, settings, shell) == 0
    assert shell.names == ["train", "export", "validate", "run"]  # the bound is reached: no more training
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("FAIL: 0 of 1 required scenarios passed, after 128 steps, ")  # the best, not the last
    assert "Failed: Standing still, drift " in last
    assert last.endswith(f"make walk SEED=1 RUN={out}-seed1")
    assert (out / "validation/report.html").exists()

    monkeypatch.setattr("gaitway_velocity.suite.SUITE", replace(SUITE, version="9.0"))  # which no verdict is of
    shell.names.clear()
    shell.verdicts.append(HOLDS)
    assert walking.walk(out, 0, settings, shell) == 0
    assert shell.names == ["train", "validate"] and "PASS" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize("code", [2, 130])
def test_a_step_that_cannot_be_done_ends_the_walk(tmp_path, code):
    assert walking.walk(tmp_path / "walk", 0, SMALL, lambda command: code) == code


@pytest.mark.slow
@pytest.mark.hostile("durability")
def test_ctrl_c_ends_the_training_in_order(tmp_path):
    """As a terminal sends it: to make's child and to that one's child alike."""
    out = tmp_path / "walk"
    settings = [word for word in SMALL if not word.startswith("examination")] + ["total_steps=1e7"]
    command = [sys.executable, "-m", "gaitway.walk", "--out", str(out), *settings]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 300
    while not list(out.glob("checkpoints/step_*.pt")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(120) == 130
    record = RunFolder.open(out).record
    assert record["status"] == "interrupted" and record["steps"] > 0


def test_it_is_what_make_walk_runs():
    root = ROOT
    shown = subprocess.run(
        ["make", "-C", root, "-n", "walk", "SEED=4", "RUN=there", "TASK=that"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "-m gaitway.walk --task that --out there --seed 4" in shown
