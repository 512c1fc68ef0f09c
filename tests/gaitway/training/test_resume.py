"""A run that was stopped and continued equals one that was not, bit for bit."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from bit_by_bit import differences
from stopping import KillAfter, final_state

from gaitway.errors import RunError
from gaitway.runs.folder import RunFolder, read_checkpoint
from gaitway.runs.rows import read_rows
from gaitway.train_config import TrainConfig, resolve
from gaitway.training import loop as training

SMALL = [
    "num_envs=16",
    "agent.num_steps=8",
    "total_steps=768",
    "num_threads=1",
    "evaluation_episodes=0",
    "agent.optimizer.epochs=2",
]


def small_config(*more: str) -> TrainConfig:
    return resolve("velocity-flat-anymal-c-blind", seed=3, overrides=[*SMALL, *more])


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> RunFolder:
    run = RunFolder.create(tmp_path_factory.mktemp("whole") / "run", small_config())
    assert training.train(small_config(), run, quiet=True) == 0
    return run


@pytest.mark.hostile("durability")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129), (signal.SIGUSR1, 138)]
)
def test_interrupted_and_resumed_is_bit_identical(uninterrupted, tmp_path, monkeypatch, capsys, number, code):
    config = small_config()
    run = RunFolder.create(tmp_path / "run", config)
    with monkeypatch.context() as patch:
        patch.setattr(training, "make_progress", lambda *_, **__: KillAfter(3, number))
        assert training.train(config, run, quiet=True) == code
    assert run.record["status"] == "interrupted"
    assert run.record["iterations"] == 3
    last_line = capsys.readouterr().out.splitlines()[-1]
    assert f"interrupted by {number.name} after 384 of 768 steps" in last_line
    assert "--resume" in last_line

    again = RunFolder.open(tmp_path / "run")
    assert training.train(again.config(), again, quiet=True) == 0
    assert again.record["status"] == "finished"
    assert differences(final_state(uninterrupted), final_state(again)) == []
    assert [row["iteration"] for row in read_rows(again.path / "metrics.jsonl")] == [1, 2, 3, 4, 5, 6]
    rows = zip(read_rows(uninterrupted.path / "metrics.jsonl"), read_rows(again.path / "metrics.jsonl"), strict=True)
    for mine, theirs in rows:
        for key in mine:
            if not key.startswith("time/") and key != "wall_s":
                assert mine[key] == theirs[key], key


@pytest.mark.parametrize("name", ["velocity-flat-anymal-c", "velocity-flat-anymal-c-blind"])
def test_the_cpu_preset_resumes_bit_identically(tmp_path, monkeypatch, name):
    """Symmetry, reduced precision, several learner threads, an estimator and every randomisation of the preset."""
    config = resolve(name, preset="cpu", overrides=SMALL)
    assert (config.agent.model.estimator is not None) is name.endswith("-blind")
    whole, parts = (RunFolder.create(tmp_path / kind, config) for kind in ("whole", "parts"))
    training.train(config, whole, quiet=True)
    with monkeypatch.context() as patch:
        patch.setattr(training, "make_progress", lambda *_, **__: KillAfter(2, signal.SIGTERM))
        assert training.train(config, parts, quiet=True) == 143
    training.train(config, RunFolder.open(parts.path), quiet=True)
    assert differences(final_state(whole), final_state(parts)) == []


def test_another_seed_is_another_run(uninterrupted, tmp_path):
    config = resolve("velocity-flat-anymal-c-blind", seed=4, overrides=SMALL)
    run = RunFolder.create(tmp_path / "run", config)
    training.train(config, run, quiet=True)
    assert differences(final_state(uninterrupted), final_state(run)) != []


@pytest.mark.slow
@pytest.mark.hostile("durability")
def test_killed_run_continues_from_its_newest_checkpoint(uninterrupted, tmp_path):
    folder = tmp_path / "run"
    settings = [*SMALL, "checkpoint_interval=1", "keep_checkpoints=2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gaitway", "train", "velocity-flat-anymal-c-blind", "--preset", "none", "--seed", "3",
         "--out", str(folder), *settings],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 300  # generous: the machine may be busy with other work
    while (
        len(list(folder.glob("checkpoints/step_*.pt"))) < 2 and process.poll() is None and time.monotonic() < deadline
    ):
        time.sleep(0.005)
    process.kill()
    process.wait()
    run = RunFolder.open(folder)
    assert training.train(run.config(), run, quiet=True) == 0
    assert differences(final_state(uninterrupted), final_state(run)) == []
    assert [row["iteration"] for row in read_rows(folder / "metrics.jsonl")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.hostile("durability")
def test_damaged_checkpoint_falls_back_to_the_one_before(uninterrupted, tmp_path):
    config = small_config("checkpoint_interval=2")
    run = RunFolder.create(tmp_path / "run", config)
    training.train(config, run, quiet=True)
    newest = run.checkpoints()[-1]
    newest.write_bytes(newest.read_bytes()[:-1000])
    again = RunFolder.open(run.path)
    with pytest.warns(UserWarning, match="falling back"), pytest.warns(UserWarning, match="is kept as"):
        training.train(config, again, quiet=True)
    assert differences(final_state(uninterrupted), final_state(again)) == []


@pytest.mark.hostile("durability")
def test_flipped_bit_is_noticed(tmp_path):
    config = small_config("total_steps=128")
    run = RunFolder.create(tmp_path / "run", config)
    training.train(config, run, quiet=True)
    path = run.checkpoints()[-1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(RunError, match="damaged"):
        read_checkpoint(path)
    with pytest.raises(RunError, match="none of the 1 checkpoints"):
        run.load_checkpoint()


def test_record_says_what_was_done(uninterrupted):
    record = json.loads((uninterrupted.path / "run.json").read_text())
    assert record["status"] == "finished"
    assert record["steps"] == record["total_steps"] == 768
    assert record["iterations"] == 6
    assert record["seed"] == 3
    assert set(record["time_s"]) == {"environment", "policy", "learning"}
    assert 0 < sum(record["time_s"].values()) <= record["wall_time_s"]
    assert record["versions"]["torch"] == torch.__version__
    assert Path(uninterrupted.path / "tensorboard").is_dir()
