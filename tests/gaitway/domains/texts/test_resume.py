"""A language run that was stopped and continued equals one that was not, bit for bit."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from bit_by_bit import differences
from language_runs import FLOAT, MODEL, RL, SFT, ours, train

from gaitway.cli import main
from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import read_rows
from gaitway.training import loop as training
from gaitway.training.progress import Progress


class KillAfter(Progress):
    """Progress that sends this very process a signal after some iterations."""

    def __init__(self, iterations: int):
        self.left = iterations

    def show(self, steps, metrics, *, last=False):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGTERM)


def final_state(run):
    return RunFolder.open(run).load_checkpoint()[0]["trainer"]


AGENTS = {
    "sft": [*SFT[len(MODEL) :], "total_steps=640", "agent.updates=2"],
    "grpo": [*RL, "evaluation_interval=16"],
    "ppo": [*RL, "agent.group_size=1", "agent.prompts_per_step=16", "agent.optimizer.minibatches=2"],
    "online-dpo": [*RL, "agent.group_size=2", "agent.prompts_per_step=8"],
}


@pytest.mark.parametrize("agent", AGENTS)
def test_interrupted_and_resumed_is_bit_identical(sft, tmp_path, monkeypatch, capsys, agent):
    command = ["arithmetic", "--agent", agent, "--model", sft, *AGENTS[agent]]
    whole = train(*command, out=tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(training, "make_progress", lambda *_, **__: KillAfter(2))
        code, out, _ = ours(["train", *command, "--out", tmp_path / "parts"], capsys)
    assert code == 143
    assert "continue with: gaitway train arithmetic" in out and "--resume" in out
    parts = train(*command, "--resume", out=tmp_path / "parts")
    assert differences(final_state(whole), final_state(parts)) == []
    mine, theirs = read_rows(whole / "metrics.jsonl"), read_rows(parts / "metrics.jsonl")
    assert len(mine) == len(theirs) > 2
    for one, other in zip(mine, theirs, strict=True):
        timed = {key for key in one if key.startswith("time/") or "tokens_per_s" in key or key.startswith("learn/sync")}
        timed |= {"wall_s", "learn/sync_s"}
        assert {k: v for k, v in one.items() if k not in timed} == {k: v for k, v in other.items() if k not in timed}
    left, right = (read_rows(run / "evaluations.jsonl") for run in (whole, parts))
    assert [row["returns"] for row in left] == [row["returns"] for row in right]


@pytest.mark.slow
def test_a_killed_process_leaves_a_run_that_goes_on(sft, tmp_path):
    command = ["arithmetic", "--agent", "grpo", "--model", str(sft), *RL]
    whole = train(*command, out=tmp_path / "whole")
    process = subprocess.Popen(
        [sys.executable, "-m", "gaitway", "train", *command, "--out", str(tmp_path / "parts")],
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 300  # generous: the machine may be busy with other work
    while not list(tmp_path.glob("parts/checkpoints/step_*.pt")) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    parts = train(*command, "--resume", out=tmp_path / "parts")
    assert differences(final_state(whole), final_state(parts)) == []


def test_a_run_goes_on_without_the_one_it_began_with(sft, tmp_path, monkeypatch):
    import shutil

    copy = shutil.copytree(sft, tmp_path / "sft")
    command = ["arithmetic", "--agent", "grpo", "--model", copy, "--lora", *RL]
    with monkeypatch.context() as patch:
        patch.setattr(training, "make_progress", lambda *_, **__: KillAfter(1))
        assert ours_code(command, tmp_path / "run") == 143
    shutil.rmtree(copy)
    assert ours_code([*command, "--resume"], tmp_path / "run") == 0


def ours_code(command, out):
    from gaitway.cli import main

    return main(["train", *map(str, command), "--out", str(out)])


def mixture(tmp_path):
    """Two files of sums with levels."""
    for name, count, level in (("easy", 40, 1), ("hard", 20, 2)):
        rows = [
            {"prompt": f"{i} + {level}", "answer": str(i + level), "completion": str(i + level), "level": level}
            for i in range(count)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"{tmp_path / 'easy.jsonl'},{tmp_path / 'hard.jsonl'}"


MIXED = ["task.source.weights={easy: 1, hard: 3}", "task.max_prompt_tokens=64", "task.max_completion_tokens=8"]
SAMPLED = ["agent.prompts_per_step=4", "agent.group_size=4", "total_steps=64", "checkpoint_interval=1"]
SMALL = ["evaluation_episodes=4", "evaluation_interval=0", "--model", "tiny", *MODEL, *FLOAT]


@pytest.mark.parametrize(
    ("agent", "settings"),
    [
        ("sft", ["agent.batch_size=16", "agent.updates=2", "total_steps=160"]),
        ("grpo", [*SAMPLED, "task.curriculum=true"]),
        pytest.param(
            "grpo",
            [*SAMPLED, "task.curriculum=true", "language.staleness=1", "language.max_staleness=3"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_mixture_goes_on_where_it_was(tmp_path, monkeypatch, capsys, agent, settings):
    command = [mixture(tmp_path), "--agent", agent, *MIXED, *SMALL, *settings]
    whole = train(*command, out=tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(training, "make_progress", lambda *_, **__: KillAfter(2))
        assert main(["train", *command, "--out", str(tmp_path / "parts"), "--quiet"]) == 143
    assert f"continue with: gaitway train {command[0]} " in capsys.readouterr().out
    parts = train(*command, "--resume", out=tmp_path / "parts")
    apart = differences(final_state(whole), final_state(parts))
    assert [name for name in apart if ".timing." not in name] == []
    rows = read_rows(parts / "metrics.jsonl")
    if agent == "grpo":
        assert all(
            f"rollout/reward/source_file/{name}" in {k for row in rows for k in row} for name in ("easy", "hard")
        )
        assert all(0.0 <= row[f"rollout/level/{level}/success"] <= 1.0 for row in rows for level in (1, 2))
