"""Processes that ``gaitway train --cpus`` and ``--gpus`` start, stopped, killed and held up; and what is refused."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from gaitway_agents.core import distributed
from gaitway_files.errors import NotDone, UserError
from torch.distributed.run import parse_args

from gaitway import launch
from gaitway.cli import main
from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import read_rows
from gaitway.training import lookout
from gaitway.training.lookout import Lookout

BLIND = "velocity-flat-anymal-c-blind"
TINY = ["num_envs=8", "num_threads=1", "agent.num_steps=4", "evaluation_episodes=0", "--quiet"]
STEPS = 2 * 8 * 4
"""Steps of an iteration of two processes."""


def nodes(*options: str) -> list[str]:
    return ["--cpus", "2", "--nodes", "3", *options]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([BLIND, "--gpus", "2"], "--gpus 2: mujoco simulates on the CPU; use --cpus N .*--world isaaclab"),
        (["cartpole", "--gpus", "2"], "--gpus 2: gymnasium simulates on the CPU; use --cpus N$"),
        ([BLIND, "--gpus", "two"], "--gpus"),
        ([BLIND, "--cpus", "2", "processes=2"], "--cpus 2 with processes=2: .*leave processes out"),
        ([BLIND, "--cpus", "2", "--distributed"], "--cpus with --distributed"),
        ([BLIND, "--cpus", "2", "--gpus", "2"], "--cpus with --gpus"),
        ([BLIND, "--cpus", "2", "--seeds", "3"], "--seeds with --cpus"),
        ([BLIND, "--cpus", "2", "num_env=3"], "did you mean 'num_envs'?"),
        (
            [BLIND, "--cpus", "2", "agent.decoupled=true"],
            r"agent\.decoupled .*leave --cpus out, or .*ppo without it",
        ),
        (["cartpole", "--cpus", "2", "--agent", "dqn"], "'dqn' learns in one process; leave --cpus out"),
        (["arithmetic", "--cpus", "2", "device=cpu", "language.staleness=1"], "leave --cpus out"),
        ([BLIND, *nodes()], "--nodes 3 needs --endpoint HOST:PORT"),
        ([BLIND, *nodes("--endpoint", "node0:29500")], "--nodes 3 needs --node-rank I"),
        ([BLIND, *nodes("--endpoint", "node0", "--node-rank", "1")], "--endpoint node0: expected HOST:PORT"),
        ([BLIND, *nodes("--endpoint", "node0:29500", "--node-rank", "3")], "--node-rank 3: .* from 0 to 2"),
        ([BLIND, "--nodes", "2"], "--nodes is for several processes: add --gpus N or --cpus N"),
        ([BLIND, "--dry-run"], "--dry-run is for several processes"),
        ([BLIND, "--cpus", "2", "--endpoint", "node0:29500"], "--endpoint node0:29500 is .*add --nodes N"),
        ([BLIND, "--cpus", "2", "--node-rank", "0"], "--node-rank 0 is .*add --nodes N"),
    ],
)
def test_what_cannot_work_is_refused_before_a_process_starts(arguments, said, capsys, monkeypatch):
    monkeypatch.setattr(launch, "_run", lambda command: pytest.fail("it was started"))
    assert main(["train", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(said, line), line


def visible(monkeypatch, count: int, *, mask: str | None = None) -> None:
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if mask is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)


def test_as_many_gpus_as_are_visible(monkeypatch):
    visible(monkeypatch, 4, mask="0,1,2,3")
    assert launch.visible_gpus("all") == 4 and launch.visible_gpus("3") == 3
    with pytest.raises(UserError, match=r"--gpus 5: 4 visible \(CUDA_VISIBLE_DEVICES=0,1,2,3\): use --gpus 4"):
        launch.visible_gpus("5")


def test_no_gpu_at_all(monkeypatch):
    visible(monkeypatch, 0, mask="")
    with pytest.raises(UserError, match=r"no GPU is visible \(CUDA_VISIBLE_DEVICES=\)"):
        launch.visible_gpus("all")


@pytest.mark.parametrize("why", ["Found no NVIDIA driver", "The NVIDIA driver on your system is too old"])
def test_a_driver_that_does_not_fit(monkeypatch, why):
    def init() -> None:
        raise RuntimeError(f"{why}.\nPlease install one.")

    visible(monkeypatch, 2)
    monkeypatch.setattr(torch.cuda, "init", init)
    with pytest.raises(UserError, match=rf"--gpus 2: CUDA 12\.8 does not start: {why}\. Please install one\."):
        launch.visible_gpus("2")


def test_a_torch_without_cuda_or_nccl(monkeypatch):
    visible(monkeypatch, 2)
    monkeypatch.setattr(dist, "is_nccl_available", lambda: False)
    with pytest.raises(UserError, match="without NCCL"):
        launch.visible_gpus("2")
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(UserError, match="built without CUDA"):
        launch.visible_gpus("2")


def test_the_command_that_is_shown_is_one_of_torchruns(capsys):
    given = ["--nodes", "2", "--node-rank=1", "--endpoint", "node0:29500", "--patience", "30", "num_envs=64"]
    assert main(["train", BLIND, "--cpus", "4", "--dry-run", *given, "--out", "runs/my walk"]) == 0
    python, minus, module, *words = shlex.split(capsys.readouterr().out)
    assert (python, minus, module) == (sys.executable, "-m", "torch.distributed.run")
    args = parse_args(words)
    assert (args.nnodes, args.nproc_per_node, args.node_rank) == ("2", "4", 1)
    assert (args.master_addr, args.master_port, args.no_python) == ("node0", 29500, True)
    assert [args.training_script, *args.training_script_args] == [
        *(sys.executable, "-m", "gaitway", "train", BLIND, "--patience", "30", "num_envs=64"),
        *("--out", "runs/my walk", "--distributed"),
    ]


# ---- those that do not fit, with a store and no processes ------------------------------------------------------------


def met(*told: tuple[dict[str, str], str], size: int = 2) -> list[BaseException | None]:
    """Errors of the processes that join; ``told`` are their versions and orders."""
    store, errors = dist.HashStore(), [None] * len(told)
    outs = [Lookout(store, rank, size, 1.0) for rank in range(len(told))]

    def join(rank: int) -> None:
        try:
            outs[rank].join(*told[rank])
        except (UserError, NotDone) as error:
            errors[rank] = error

    threads = [threading.Thread(target=join, args=(rank,)) for rank in range(len(told))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for out in outs:
        out.stop()
    return errors


OURS = {"gaitway": "1.0", "torch": "2.9"}


def test_processes_must_be_alike(monkeypatch):
    monkeypatch.setattr(lookout, "GRACE_S", 0.1)
    assert met((OURS, "cartpole"), (OURS, "cartpole")) == [None, None]
    first, second = met((OURS, "cartpole"), ({"gaitway": "1.0", "torch": "2.6"}, "cartpole"))
    assert isinstance(first, UserError) and isinstance(second, NotDone)
    assert "process 1 (" in str(first) and "has torch 2.6 and not 2.9" in str(first) and "gaitway 1" not in str(first)
    first, _ = met((OURS, "cartpole num_envs=8"), (OURS, "cartpole num_envs=9"))
    assert "num_envs=9" in str(first) and "num_envs=8" in str(first) and isinstance(first, UserError)


def test_a_process_that_does_not_come_is_named(monkeypatch):
    monkeypatch.setattr(lookout, "GRACE_S", 0.1)
    monkeypatch.setenv("MASTER_ADDR", "node0")
    first, second = met((OURS, "cartpole"), (OURS, "cartpole"), size=4)
    assert "of 4 processes 2, 3 did not come in 1 s" in str(first) and "node0" in str(first)
    assert isinstance(second, NotDone)


def test_a_process_that_works_alone_is_not_waited_for_in_vain(monkeypatch):
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(lookout, "GRACE_S", 0.1)
    store = dist.HashStore()
    out = Lookout(store, 1, 2, patience=0.0)
    out.members = [lookout.Member(rank, "elsewhere", 1, {}, "") for rank in range(2)]
    monkeypatch.setattr(distributed, "pulse", distributed.Pulse())
    store.set("pulse/0", "[3, false, true]")
    assert not out._look() and not ended
    store.set("pulse/0", "[3, false, false]")
    out._look()
    assert ended == [1] and store.check(["over"])


# ---- processes -------------------------------------------------------------------------------------------------------


@contextmanager
def started(out: Path, *more: str, checkpoint: bool = True) -> Iterator[tuple[Any, list[int]]]:
    """A training by two processes, and these, once it has a checkpoint."""
    command = [sys.executable, "-m", "gaitway", "train", BLIND, *TINY, "--cpus", "2", "--out", str(out)]
    settings = ["total_steps=1e8", "checkpoint_interval=1"]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [*command, *settings, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=paths
    )
    try:
        deadline = time.monotonic() + 240
        while checkpoint and not list(out.glob("checkpoints/step_*.pt")) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process, children(process.pid)
    finally:
        process.kill()
        process.communicate(timeout=60)


def children(pid: int) -> list[int]:
    found = [task.read_text().split() for task in Path(f"/proc/{pid}/task").glob("*/children")]
    return sorted(int(word) for words in found for word in words)


def all_gone(pids: list[int], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
@pytest.mark.hostile("durability")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_signal_stops_all_and_they_continue(tmp_path, number):
    out = tmp_path / "run"
    with started(out) as (process, pids):
        process.send_signal(number)
        said, wrong = process.communicate(timeout=120)
        assert process.returncode == 128 + number, wrong
        assert f"interrupted by {number.name}" in said and not wrong
        assert all_gone(pids)
    record = RunFolder.open(out).record
    assert record["status"] == "interrupted" and record["processes"] == 2
    total = record["steps"] + 2 * STEPS
    command = ["train", BLIND, "--cpus", "2", "--out", str(out), "--resume", "--quiet", f"total_steps={total}"]
    done = subprocess.run([sys.executable, "-m", "gaitway", *command], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert RunFolder.open(out).record["status"] == "finished"
    rows = read_rows(out / "metrics.jsonl")
    assert [row["steps"] for row in rows] == [STEPS * (n + 1) for n in range(total // STEPS)]


@pytest.mark.slow
@pytest.mark.hostile("durability")
@pytest.mark.parametrize("victim", ["first", "second", "launcher"])
def test_none_outlives_one_that_is_killed(tmp_path, victim):
    with started(tmp_path / "run") as (process, pids):
        assert len(pids) == 2
        named = next(pid for pid in pids if (f"RANK={int(victim == 'second')}\0") in environ(pid))
        os.kill(process.pid if victim == "launcher" else named, signal.SIGKILL)
        assert all_gone(pids)
        _, said = process.communicate(timeout=60)
        if victim != "launcher":
            assert process.returncode == 1
            assert f"process {int(victim == 'second')} (pid {named}) was ended by SIGKILL" in said
            assert "Traceback" not in said


def environ(pid: int) -> str:
    return "\0" + Path(f"/proc/{pid}/environ").read_text().replace("\0", "\0\0")


HELD_UP = """
import os, time

import torch

calls = 0


def late(world):
    global calls
    calls += 1
    if os.environ.get("RANK") == "1" and calls > 40:
        {what}
    return torch.zeros(world.num_envs)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("time.sleep(1000)", 1, r"no step of the training in 30 s.*process 1 \(\S+, pid \d+\): late \(held_up.py:13\)"),
        ("return torch.full((world.num_envs,), float('nan'))", 2, r"reward 'mine' \(held_up:late\) is nan"),
        ("os._exit(3)", 3, r"process 1 \(pid \d+\) ended with exit code 3, .*--resume"),
    ],
    ids=["hangs", "nan", "leaves"],
)
def test_a_process_that_fails_says_why_and_one_that_hangs_is_named(tmp_path, monkeypatch, what, code, said):
    (tmp_path / "held_up.py").write_text(HELD_UP.format(what=what))
    monkeypatch.syspath_prepend(tmp_path)
    mine = "task.rewards.mine={func: 'held_up:late', weight: 1.0}"
    with started(tmp_path / "run", mine, "--patience", "30") as (process, pids):
        _, wrong = process.communicate(timeout=200)
        assert process.returncode == code, wrong
        assert re.search(said, wrong, re.DOTALL), wrong
        assert all_gone(pids)


@pytest.mark.slow
def test_two_nodes_train_one_run(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "gaitway", "train", BLIND, *TINY, "--cpus", "1", "--nodes", "2"]
    command += ["--endpoint", endpoint, "--out", str(tmp_path / "run"), f"total_steps={4 * STEPS}"]
    both = [
        subprocess.Popen(
            [*command, "--node-rank", str(rank)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        (first, wrong), (second, also_wrong) = (each.communicate(timeout=240) for each in both)
    finally:
        for each in both:
            each.kill()
    assert [each.returncode for each in both] == [0, 0], wrong + also_wrong
    assert first.count(f"finished: {4 * STEPS} steps") == 1 and not second
    record = RunFolder.open(tmp_path / "run").record
    assert record["processes"] == 2 and record["iterations"] == 4
