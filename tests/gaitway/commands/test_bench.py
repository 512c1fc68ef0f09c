"""The matrix of trainings: what it runs, what it leaves alone, and how it survives."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gaitway import jobs as gaitway_jobs
from gaitway.bench import check_begun, matrix, result, run_matrix
from gaitway.cli import main
from gaitway.jobs import Here, Job
from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import read_rows
from gaitway.train_config import resolve

TINY = ("total_steps=2048", "evaluation_episodes=2", "agent.optimizer.epochs=1")


def wait_for(condition, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def test_a_dry_run_prints_one_command_for_each_combination(tmp_path, capsys):
    out = tmp_path / "b"
    assert (
        main(["bench", "cartpole,acrobot", "--agent", "ppo,dqn", "--seeds", "2", "--out", str(out), "--dry-run"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(set(lines)) == 8
    assert f"gaitway train acrobot --agent dqn --seed 1 --out {out}/acrobot-dqn/seed1 --resume --quiet" in lines
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cartpole", "--seeds", "0"], "--seeds 0: must be at least 1"),
        (["cartpole", "--jobs", "-1"], "--jobs -1: must be at least 1"),
        (["cartpole,cartpole"], "every name only once"),
        ([","], "name at least one"),
        (["cartpole", "--agent", "sac"], "cartpole with sac: agent 'sac' cannot act in Discrete(2): use one of ppo"),
        (["cartpole,pendulum", "--agent", "dqn,q-learning"], "pendulum with q-learning"),
        (["cartpole", "--world", "isaac"], "unknown world 'isaac': did you mean 'isaaclab'?"),
        (["cartpole", "--world", "mujoco"], "cartpole is a task of gymnasium"),
        (["cartpole", "seed=3"], "seed=3: every run would have this seed; leave it out, and say how many by --seeds"),
        (["cartpole", "agent.gama=0.9"], "did you mean 'agent.gamma'?"),
    ],
)
def test_a_matrix_that_cannot_run_is_refused_as_a_whole(arguments, message, tmp_path, capsys):
    assert main(["bench", *arguments, "--out", str(tmp_path / "b")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("setting", ["total_steps=4096", "agent.gamma=0.9"])
def test_runs_that_were_begun_with_other_settings_are_not_taken_for_these(setting, tmp_path, capsys):
    (job,) = matrix(["cartpole"], ["ppo"], [0], tmp_path / "b", ("num_threads=1",))
    RunFolder.create(job.folder, resolve("cartpole", overrides=["total_steps=8192"]))
    check_begun([job])
    assert main(["bench", "cartpole", setting, "--seeds", "1", "--out", str(tmp_path / "b")]) == 2
    key, _, value = setting.partition("=")
    assert re.search(rf"seed0 was begun with {key}=\S+, not {value}: .*another --out", capsys.readouterr().err)
    assert not job.log.exists()


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path, capsys):
    (tmp_path / "b").write_text("")
    assert main(["bench", "cartpole", "--out", str(tmp_path / "b")]) == 2
    assert "b: a file is in the way; choose another folder with --out" in capsys.readouterr().err


def pretend(programs):
    """Runs that are shell scripts: ``programs[seed]`` are what its process does each time that it is started."""

    def start(here, job):
        job.folder.mkdir(parents=True, exist_ok=True)
        return subprocess.Popen(["sh", "-c", programs[job.seed][job.attempts - 1]], cwd=job.folder)

    return start


DONE = """echo '{"status": "finished", "steps": 7, "wall_time_s": 1.0}' > run.json"""


def test_a_process_that_is_killed_is_started_again_and_one_that_fails_is_not(tmp_path, capsys, monkeypatch):
    """Of four seeds one is killed twice and then finishes, one is always killed, one fails, one is finished before."""
    jobs = matrix(["cartpole"], ["ppo"], range(4), tmp_path, TINY)
    monkeypatch.setattr(gaitway_jobs, "POLL_S", 0.01)
    monkeypatch.setattr(Here, "start", pretend([["kill -9 $$"] * 2 + [DONE], ["kill -9 $$"] * 3, ["exit 2"], [DONE]]))
    assert run_matrix(jobs[3:], 1) == 0
    assert capsys.readouterr().out.startswith("cartpole ppo seed 3: 7 steps in 1 s  [1 of 1]")
    assert run_matrix(jobs, 2) == 1
    assert [job.attempts for job in jobs] == [3, 3, 1, 1]
    said = capsys.readouterr()
    assert said.out.startswith("1 of 4 runs are finished already")
    assert said.out.count("seed 0: ended by SIGKILL; continuing from its checkpoint") == 2
    assert "seed 1: failed, exit code -9" in said.out and "seed 2: failed, exit code 2; see" in said.out
    assert "2 of 4 runs failed: " in said.err


@pytest.mark.slow
def test_a_run_that_fails_is_told_and_done_by_the_same_command_which_leaves_finished_ones_alone(tmp_path, capsys):
    jobs = matrix(["cartpole"], ["ppo"], [0, 1], tmp_path, TINY)
    jobs[0].folder.mkdir(parents=True)
    (jobs[0].folder / "thesis.tex").touch()
    assert run_matrix(jobs, 2) == 1
    said = capsys.readouterr()
    assert "cartpole ppo seed 0: failed, exit code 2" in said.out and "1 of 2 runs failed" in said.err
    assert "is not an empty folder" in jobs[0].log.read_text()
    before = (jobs[1].folder / "run.json").read_bytes()
    (jobs[0].folder / "thesis.tex").unlink()
    assert run_matrix(jobs, 2) == 0
    assert (jobs[1].folder / "run.json").read_bytes() == before
    told = capsys.readouterr().out
    assert "1 of 2 runs are finished already" in told and "all 2 runs are finished" in told
    assert "evaluation " in told
    for job in jobs:
        assert RunFolder.open(job.folder).record["seed"] == job.seed
        assert len(read_rows(job.folder / "evaluations.jsonl")[-1]["returns"]) == 2
        assert sum(row["length"] for row in read_rows(job.folder / "episodes.jsonl")) <= 2048


@pytest.mark.slow
def test_a_killed_worker_is_continued(tmp_path, capsys, monkeypatch):
    """The process dies by SIGKILL as soon as it has a checkpoint; the run is finished all the same."""
    settings = ("total_steps=8192", "evaluation_episodes=0", "agent.optimizer.epochs=1", "checkpoint_interval=2")
    (job,) = matrix(["cartpole"], ["ppo"], [0], tmp_path, settings)
    start, killed = Here.start, []

    def start_and_kill(here, job):
        process = start(here, job)
        if not killed:
            wait_for(lambda: list((job.folder / "checkpoints").glob("step_*.pt")))
            os.kill(process.pid, signal.SIGKILL)
            killed.append(process.pid)
        return process

    monkeypatch.setattr(Here, "start", start_and_kill)
    assert run_matrix([job], 1) == 0
    assert killed and job.attempts == 2
    assert "ended by SIGKILL; continuing from its checkpoint" in capsys.readouterr().out
    steps = [row["steps"] for row in read_rows(job.folder / "metrics.jsonl")]
    assert steps == list(range(256, 8193, 256))


@pytest.mark.slow
def test_a_stop_request_reaches_the_runs(tmp_path):
    """SIGTERM to the bench: its runs write checkpoints, nothing goes on, and the same command finishes them."""
    out = tmp_path / "b"
    command = [sys.executable, "-m", "gaitway", "bench", "cartpole", "--seeds", "1", "--out", str(out)]
    settings = ["total_steps=500000", "evaluation_episodes=0"]
    process = subprocess.Popen([*command, *settings], stdout=subprocess.PIPE, text=True)
    folder = out / "cartpole" / "seed0"
    wait_for(lambda: (folder / "metrics.jsonl").exists())
    process.send_signal(signal.SIGTERM)
    told, _ = process.communicate(timeout=300)
    assert process.returncode == 143
    assert "stopped by SIGTERM" in told
    record = json.loads((folder / "run.json").read_text())
    assert record["status"] == "interrupted"
    assert list(Path(folder, "checkpoints").glob("step_*.pt"))


def test_a_robot_is_told_by_its_falls_and_errors(tmp_path):
    job = Job("velocity-flat-go2-blind", "ppo", 0, tmp_path)
    (tmp_path / "run.json").write_text(json.dumps({"steps": 60_416, "wall_time_s": 23.4}))
    row = {"steps": 60_416, "wall_s": 23.4, "deterministic": True, "returns": [1.0, 2.0], "falls": 1}
    row |= {"tracking": {"base_velocity": {"linear": 0.7482, "yaw": 0.4283}}}
    (tmp_path / "evaluations.jsonl").write_text(json.dumps(row) + "\n")
    assert result(job) == (
        "60,416 steps in 23 s, evaluation: 1 of 2 episodes fell, 0.748 m/s off command, 0.428 rad/s turning off "
        "command, return 1.50"
    )
