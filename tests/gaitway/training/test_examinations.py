"""A training that ends when it is good: examinations, their rows, and what a continued run makes of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bit_by_bit import differences
from gaitway_sim2real.bundle import measured
from gaitway_sim2real.trial.examination import Examiner
from gaitway_velocity.suite import SUITE
from scripted_examinations import SMALL, outcomes
from stopping import KillAfter, final_state
from tree import IMPORTABLE

from gaitway.cli import main
from gaitway.errors import ConfigError
from gaitway.runs import folder
from gaitway.runs.files import NoSpace
from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import read_rows
from gaitway.start import Order, begin
from gaitway.train_config import resolve
from gaitway.training import loop as training
from gaitway.training.examinations import Examinations, Watch

BLIND = "velocity-flat-anymal-c-blind"


def train(path: Path, *more: str, until: str | None = "good") -> int:
    asked = [] if until is None else ["--until", until]
    resume = ["--resume"] if path.exists() else []
    return main(["train", BLIND, "--seed", "3", "--out", str(path), "--quiet", *asked, *resume, *more])


def examined(path: Path) -> list[tuple[int, bool]]:
    return [(row["steps"] // 128, row["passed"]) for row in read_rows(path / "examinations.jsonl")]


def kept(path: Path) -> list[int]:
    return [steps // 128 for steps in RunFolder.open(path).kept()]


def test_it_ends_with_the_first_policy_that_passes_the_suite(tmp_path, monkeypatch, capsys):
    trials = outcomes(monkeypatch, {2, 4, 5, 6, 8, 9}, suite={5, 6, 9})
    run = tmp_path / "run"
    assert train(run, *SMALL, "keep_checkpoints=1") == 0
    assert examined(run) == [(1, False), (2, True), (3, False), (4, True), (5, True)]
    assert trials == [(2, 0, []), (4, 1, ["slope-2"]), (5, 2, ["slope-4", "slope-2"])]
    record = RunFolder.open(run).record
    assert (record["status"], record["reason"], record["steps"], record["chosen"]) == ("finished", "good", 640, 640)
    assert "finished: good after 640 steps" in capsys.readouterr().out
    assert kept(run) == [2, 4, 5]  # all that passed an examination

    assert train(run) == 0  # nothing more is asked for
    said = capsys.readouterr().out
    assert "is finished: good after 640 steps" in said and "least_steps" in said and "total_steps" in said
    assert train(run, "least_steps=768") == 0
    assert examined(run)[5:] == [(6, True)]
    assert train(run, "total_steps=1408") == 0  # eleven iterations
    assert examined(run)[6:] == [(7, False), (8, True), (9, True)]
    assert train(run, until="end") == 0
    record = RunFolder.open(run).record
    assert (record["steps"], record["reason"]) == (1408, "total_steps") and len(examined(run)) == 9
    assert [row["iteration"] for row in read_rows(run / "metrics.jsonl")] == list(range(1, 12))


def test_what_the_best_lacked_is_said_at_the_bound_and_it_is_kept(tmp_path, monkeypatch, capsys):
    outcomes(monkeypatch, {1}, suite=set())
    few = [*SMALL, "total_steps=512", "keep_checkpoints=1"]
    assert main(["train", BLIND, "--until", "good", "--out", str(tmp_path / "run"), *few]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("512 steps at the latest" in line for line in lines[:3])
    first, second, *_ = [line for line in lines if line.startswith("examination after")]
    assert "after 128 steps passed: all 1 checks hold" in first
    assert second == "examination after 256 steps failed: drift in standing 0.200 m/s (limit 0.045 m/s)"
    assert lines[-1] == "not good after 512 steps: the best policy examined, of 128 steps, lacks slope-1, falls 5.0 %"
    record = RunFolder.open(tmp_path / "run").record
    assert (record["reason"], record["chosen"]) == ("total_steps", 128)
    assert kept(tmp_path / "run") == [1, 4]


@pytest.mark.hostile("durability")
def test_a_stop_between_two_trials_changes_nothing(tmp_path, monkeypatch):
    outcomes(monkeypatch, {2, 3, 4}, suite={4})
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(whole, *SMALL)
    with monkeypatch.context() as patch:
        patch.setattr(training, "make_progress", lambda *_, **__: KillAfter(3, signal.SIGTERM))
        assert train(parts, *SMALL) == 143
    assert examined(parts) == [(1, False), (2, True), (3, True)]
    trials = outcomes(monkeypatch, {2, 3, 4}, suite={4})
    assert train(parts, until=None) == 0  # until stays with the run
    assert trials == [(4, 2, ["slope-3", "slope-2"])]
    assert examined(parts) == examined(whole) and examined(whole)[-1] == (4, True)
    assert differences(final_state(RunFolder.open(whole)), final_state(RunFolder.open(parts))) == []


@pytest.mark.hostile("durability")
def test_a_process_killed_in_an_examination_holds_it_again(tmp_path, monkeypatch):
    """The checkpoint is written before, so nothing is learnt twice."""
    outcomes(monkeypatch, {2})
    run = tmp_path / "run"

    def interrupted(self: Examinations, *_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Examinations, "hold", interrupted)
        with pytest.raises(KeyboardInterrupt):
            begin(
                Order(task=BLIND, seed=3, out=run, settings=[*SMALL, "until=good", "checkpoint_interval=9"], quiet=True)
            )
    assert kept(run) == [1]
    assert train(run) == 0
    assert examined(run) == [(1, False), (2, True)]


@pytest.mark.hostile("durability")
def test_a_trial_that_is_stopped_is_held_again(tmp_path, monkeypatch):
    trials = outcomes(monkeypatch, {2})
    run = tmp_path / "run"
    watch = Watch.__call__

    def interrupted(self: Watch, *where: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        watch(self, *where)

    with monkeypatch.context() as patch:
        patch.setattr(Watch, "__call__", interrupted)
        assert train(run, *SMALL) == 130
    assert trials == [] and examined(run) == [(1, False)] and kept(run) == [1, 2]
    assert train(run) == 0
    assert trials == [(2, 0, [])] and examined(run) == [(1, False), (2, True)]


@pytest.mark.hostile("durability")
def test_on_a_full_disk_the_oldest_that_was_kept_gives_way(tmp_path, monkeypatch, capsys):
    outcomes(monkeypatch, {1, 2}, suite=set())
    run, write, full = tmp_path / "run", folder.write_tensors_atomically, [True]

    def tight(path: Path, data: Any) -> None:
        if path.name.endswith("000512.pt") and full and len(kept(run)) > 2:
            raise NoSpace(path)
        write(path, data)

    monkeypatch.setattr(folder, "write_tensors_atomically", tight)
    assert train(run, *SMALL, "total_steps=512", "keep_checkpoints=1") == 0
    assert kept(run) == [2, 4]
    assert "gives way" in capsys.readouterr().err


@pytest.mark.hostile("durability")
def test_an_examination_that_no_checkpoint_contains_does_not_count(tmp_path, monkeypatch):
    """A process killed after an examination and before the next checkpoint leaves its row."""
    outcomes(monkeypatch, {3}, suite=set())
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(training, "make_progress", lambda *_, **__: KillAfter(2, signal.SIGTERM))
        assert train(run, *SMALL) == 143
    RunFolder.open(run).append_examination({"steps": 384, "wall_s": 1.0, "passed": True})
    assert train(run) == 0
    assert examined(run)[:4] == [(1, False), (2, False), (3, True), (4, False)] and len(examined(run)) == 10


def test_an_examination_changes_nothing_of_the_training(tmp_path, monkeypatch):
    """With the real examiner, of a few robots for a moment: bit by bit the run without."""
    short = [replace(s, envs=2, seconds=0.1) for s in SUITE.examination if s.name in ("standing", "command_grid")]
    monkeypatch.setattr(Examiner.__init__, "__kwdefaults__", {"seed": 0, "threads": 1, "scenarios": short})
    monkeypatch.setattr(measured, "SECONDS", 0.4)
    monkeypatch.setattr(measured, "RAMP", 0.2)
    few = [*SMALL, "task.commands.base_velocity.margin=0.1", "total_steps=384"]
    with_, without = tmp_path / "with", tmp_path / "without"
    assert main(["train", BLIND, "--preset", "cpu", "--until", "good", "--out", str(with_), "--quiet", *few]) == 0
    assert main(["train", BLIND, "--preset", "cpu", "--out", str(without), "--quiet", *few]) == 0
    rows = read_rows(with_ / "examinations.jsonl")
    assert [row["steps"] for row in rows] == [128, 256, 384]
    metrics = [{check["metric"] for check in row["checks"]} for row in rows]
    assert metrics[0] == metrics[1] == metrics[2] >= {"drift", "lin_vel_error", "falls"}
    assert not (without / "examinations.jsonl").exists()
    assert differences(final_state(RunFolder.open(with_)), final_state(RunFolder.open(without))) == []


@pytest.mark.parametrize(
    ("task", "settings", "what"),
    [
        ("cartpole", [], "cartpole is an environment without an examination.*leave --until out"),
        ("breakout-ram", [], "without an examination.*leave --until out"),
        ("arithmetic", [], "arithmetic is a language task without an examination.*leave --until out"),
        ("velocity-rough-anymal-c", [], "walks on Tiles.*flat ground.*leave --until out"),
        (BLIND, ["least_steps=2e9"], "least_steps=2000000000 is more than total_steps=.*raise total_steps"),
        (BLIND, ["examination_interval=0"], "examination_interval=0: must be at least 1"),
        (BLIND, ["until=god"], "until='god': use end or good"),
    ],
)
def test_what_cannot_be_examined_is_refused_at_once(task, settings, what):
    with pytest.raises(ConfigError, match=what):
        resolve(task, overrides=["until=good", *settings])


def test_an_actor_that_reads_what_no_robot_measures_is_refused():
    from gaitway_tasks.mdp import observations
    from gaitway_tasks.registry import get_task
    from gaitway_tasks.spec import ObservationTerm

    config = resolve(BLIND, overrides=["until=good"])
    assert resolve("velocity-flat-anymal-c", overrides=["until=good"]).until == "good"  # as gaitway validate RUN
    task = get_task(BLIND)
    height = ObservationTerm(func=observations.base_pos_z)
    group = task.observations["policy"]
    seeing = task.replace(
        observations={**task.observations, "policy": replace(group, terms={**group.terms, "height": height})}
    )
    with pytest.raises(ConfigError, match=r"until=good: .*'height' reads root_pos_w"):
        replace(config, task=seeing)


def test_a_bound_below_the_steps_already_taken_is_refused(tmp_path, monkeypatch, capsys):
    outcomes(monkeypatch, {4})
    run = tmp_path / "run"
    assert train(run, *SMALL) == 0
    before = (run / "config.yaml").read_text()
    assert train(run, "total_steps=256") == 2
    assert "total_steps=256: " in (said := capsys.readouterr().err) and "has done 512 steps already" in said
    assert (run / "config.yaml").read_text() == before


ALONG = """
import sys
import pytest
from scripted_examinations import outcomes
from gaitway.cli import main

outcomes(pytest.MonkeyPatch(), {2})
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_processes_that_learn_together_stop_together(tmp_path):
    """The first examines; the others, which keep no records, end with it."""
    out, script = tmp_path / "run", tmp_path / "along.py"
    script.write_text(ALONG)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", str(script)]
    asked = ["train", BLIND, "--until", "good", "--distributed", "--out", str(out), "--quiet"]
    few = ["num_envs=8", "agent.num_steps=8", "num_threads=1", "evaluation_episodes=0", "agent.optimizer.epochs=1"]
    path = os.pathsep.join([IMPORTABLE, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*torchrun, *asked, *few, "total_steps=1280", "examination_interval=128"],
        capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("finished: good after 256 steps") == 1, done.stdout
    assert examined(out) == [(1, False), (2, True)]
