"""Threads that die for want of memory: the training ends and says so, can be continued, and never waits for ever."""

from __future__ import annotations

import concurrent.futures.thread as pools
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from gaitway_agents.collector import Collector
from gaitway_agents.core.optimizer import PolicyOptimizer
from gaitway_agents.core.threads import ThreadDied, result_of

from gaitway.cli import main
from gaitway.runs.rows import read_rows

pytestmark = pytest.mark.hostile("durability")

TRAIN = ["train", "cartpole", "--quiet", "num_envs=4", "agent.num_steps=8", "total_steps=256"]
SMALL = [
    "agent.optimizer.epochs=1", "agent.optimizer.workers=2", "agent.optimizer.chunk_size=8",
    "agent.optimizer.minibatches=1", "checkpoint_interval=2", "evaluation_episodes=0",
]  # fmt: skip


def dying(function, when, thread):
    """``function``, that runs out of memory at its ``when``-th call in threads of this name."""
    calls = []

    def call(*args, **keys):
        if threading.current_thread().name.startswith(thread):
            calls.append(1)
            if len(calls) == when:
                raise MemoryError
        return function(*args, **keys)

    return call


def fail_and_resume(out, capsys, *settings, reason="out of memory"):
    command = [*TRAIN, *SMALL, *settings, "--out", str(out)]
    assert main(command) == 1
    said = capsys.readouterr()
    assert reason in said.err and "Traceback" not in said.err
    assert "failed after " in said.out and "--resume" in said.out
    record = json.loads((out / "run.json").read_text())
    assert record["status"] == "failed" and record["error"]
    return [*command, "--resume"]


def test_of_environments(tmp_path, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Collector, "play", dying(Collector.play, 5, "actor"))
        command = fail_and_resume(tmp_path / "run", capsys, "agent.decoupled=true")
    assert main(command) == 0
    assert [row["iteration"] for row in read_rows(tmp_path / "run" / "metrics.jsonl")] == list(range(1, 9))


def test_of_the_learner(tmp_path, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(PolicyOptimizer, "_chunk", dying(PolicyOptimizer._chunk, 12, "learner"))
        command = fail_and_resume(tmp_path / "run", capsys)
    assert main(command) == 0


def test_between_two_pieces_of_work_there_is_no_endless_wait(monkeypatch):
    """Death of a pool's thread, not of its work: there is no result and never will be."""
    monkeypatch.setattr("gaitway_agents.core.threads.LOOK", 0.05)
    monkeypatch.setattr(pools._WorkItem, "run", dying(pools._WorkItem.run, 2, "doomed"))
    with ThreadPoolExecutor(1, "doomed") as pool:
        assert result_of(pool.submit(int, "7"), pool) == 7
        with pytest.raises(ThreadDied, match="the thread doomed_0 died before its work was done"):
            result_of(pool.submit(int, "8"), pool)


def test_what_the_work_raises_is_raised(monkeypatch):
    monkeypatch.setattr("gaitway_agents.core.threads.LOOK", 0.01)

    def out_of_time():
        threading.Event().wait(0.05)
        raise TimeoutError("of the work")

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(TimeoutError, match="of the work"):
            result_of(pool.submit(out_of_time), pool)
        assert result_of(pool.submit(threading.Event().wait, 0.05), pool) is False


def test_of_tensorboard(tmp_path, capsys, monkeypatch):
    """Its rows are a copy: the training goes on without it."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    from gaitway.training.events import EventWriter

    monkeypatch.setattr(EventWriter, "INTERVAL_S", 0.0)
    monkeypatch.setattr(RecordWriter, "write", dying(RecordWriter.write, 4, "MainThread"))
    assert main([*TRAIN, *SMALL, "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().err
    assert (
        "tensorboard gets no more events (MemoryError); the training goes on" in said
        and said.count("no more events") == 1
    )
    assert len(read_rows(tmp_path / "run" / "metrics.jsonl")) == 8
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"


def test_when_there_is_no_memory_to_say_so(tmp_path, capsys, monkeypatch):
    from gaitway.runs.folder import RunFolder

    update = RunFolder.update

    def poor(self, **fields):
        if fields.get("status") == "failed":
            raise MemoryError("twice")
        update(self, **fields)

    def full(*_):
        raise MemoryError("once")

    monkeypatch.setattr(RunFolder, "update", poor)
    monkeypatch.setattr(PolicyOptimizer, "update", full)
    assert main([*TRAIN, *SMALL, "--out", str(tmp_path / "run")]) == 1
    assert "out of memory (once)" in capsys.readouterr().err
