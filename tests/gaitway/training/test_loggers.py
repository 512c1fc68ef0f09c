"""Weights & Biases, offline, and MLflow, in a file: the metrics of a run at their steps, also when it is continued."""

import importlib.util
import json
import signal
import socket
import struct
import time
from pathlib import Path

import pytest
import torch
from scripted_examinations import SMALL as SHORT
from scripted_examinations import outcomes
from stopping import KillAfter

from gaitway.cli import main
from gaitway.errors import ConfigError
from gaitway.runs.rows import read_rows
from gaitway.train_config import resolve
from gaitway.training import loop as training
from gaitway.training.events import EventWriter
from gaitway.training.numbers import numbers
from gaitway.training.progress import Progress

TRAIN = ["train", "cartpole", "--quiet", "num_envs=4", "agent.num_steps=8", "total_steps=192", "evaluation_episodes=0"]
SMALL = ["agent.optimizer.epochs=1", "agent.optimizer.minibatches=1", "checkpoint_interval=2"]
COMMAND = [*TRAIN, *SMALL]
ITERATIONS = [1, 2, 3, 4, 5, 6]


class FailAfter(Progress):
    """A disk that is full, say, at the third iteration."""

    left = 3

    def show(self, steps, metrics, *, last=False):
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("no more")


@pytest.fixture(autouse=True)
def every_row(monkeypatch, tmp_path):
    monkeypatch.setattr(EventWriter, "INTERVAL_S", 0.0)
    monkeypatch.chdir(tmp_path)


def offline(monkeypatch):
    """W&B keeps its records here, also where a test before has set it up in another way."""
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    wandb.teardown()


def stop(monkeypatch, status, *words):
    """Train until the third iteration, which ends as ``status`` says."""
    progress = FailAfter() if status == "failed" else KillAfter(3, signal.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr(training, "make_progress", lambda *_, **__: progress)
        assert main([*COMMAND, *words]) == (70 if status == "failed" else 143)


def records(run: Path):
    """What an offline run of W&B would upload, of each process that trained it; W&B's own process writes it."""
    from wandb.proto import wandb_internal_pb2

    found, deadline = [], time.monotonic() + 30.0
    for file in sorted(run.glob("wandb/offline-run-*/*.wandb")):
        ended = False
        while not ended:
            assert time.monotonic() < deadline, f"{file} has no end"
            part = []
            for data in framed(file.read_bytes()):
                part.append(wandb_internal_pb2.Record())
                part[-1].ParseFromString(data)
            ended = any(record.WhichOneof("record_type") == "exit" for record in part)
            time.sleep(0.0 if ended else 0.1)
        found += part
    return found


def framed(log: bytes):
    """Records of a log in LevelDB's format: blocks of 32 KiB, and pieces with checksum, length and kind."""
    at, whole = 7, b""  # behind the header of the file
    while at + 7 <= len(log):
        if 32768 - at % 32768 < 7:  # padding at the end of a block
            at += 32768 - at % 32768
        length, kind = struct.unpack_from("<HB", log, at + 4)
        if at + 7 + length > len(log):
            return  # it is being written
        whole, at = whole + log[at + 7 : at + 7 + length], at + 7 + length
        if kind in (1, 4):  # the whole of a record, or its last piece
            yield whole
            whole = b""


@pytest.mark.parametrize("status", ["interrupted", "failed"])
def test_weights_and_biases(tmp_path, monkeypatch, capsys, status):
    offline(monkeypatch)
    run = tmp_path / "run"
    stop(monkeypatch, status, "--logger", "wandb", "--out", str(run))
    time.sleep(1.1)  # W&B names its folders by the second
    assert main([*COMMAND, "--out", str(run), "--resume"]) == 0
    said = capsys.readouterr()
    assert "later: wandb sync" in said.out and "no more events" not in said.err

    rows = {row["iteration"]: row for row in read_rows(run / "metrics.jsonl")}
    found, ids, names, codes, configs = {}, set(), set(), [], []
    for record in records(run):
        kind = record.WhichOneof("record_type")
        if kind == "history":
            items = {item.nested_key[0] if item.nested_key else item.key: item for item in record.history.item}
            found[record.history.step.num] = json.loads(items["learn/value_loss"].value_json)
        elif kind == "run":
            ids.add(record.run.run_id)
            names.add(record.run.display_name)
            configs.append({item.key: json.loads(item.value_json) for item in record.run.config.update})
        elif kind == "exit":
            codes.append(record.exit.exit_code)
    assert found == {number: rows[number]["learn/value_loss"] for number in ITERATIONS}
    assert ids == {json.loads((run / "run.json").read_text())["loggers"]["wandb"]}
    assert names == {"cartpole run"} and codes == [int(status == "failed"), 0]
    assert configs[0]["num_envs"] == 4 and configs[0]["task"]["name"] == "cartpole"


def test_what_weights_and_biases_does_not_get(tmp_path, monkeypatch):
    offline(monkeypatch)
    assert main([*COMMAND, "--logger", "wandb", "--out", str(tmp_path / "run")]) == 0
    seen = records(tmp_path / "run")
    assert {record.WhichOneof("record_type") for record in seen}.isdisjoint({"output", "output_raw", "files"})
    text = "".join(str(record) for record in seen)
    for secret in (str(Path.home()), str(tmp_path), f'"{socket.gethostname()}"', "--quiet"):
        assert secret not in text
    assert [path for path in (tmp_path / "run" / "wandb").glob("*/files/*") if path.is_file()] == []


@pytest.mark.parametrize("status", ["interrupted", "failed"])
def test_mlflow(tmp_path, monkeypatch, status):
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    mlflow.set_tracking_uri(None)
    run, client = tmp_path / "run", mlflow.MlflowClient()
    stop(monkeypatch, status, "--logger", "mlflow", "--out", str(run))
    known = json.loads((run / "run.json").read_text())["loggers"]["mlflow"]
    assert client.get_run(known).info.status == {"interrupted": "KILLED", "failed": "FAILED"}[status]
    assert main([*COMMAND, "--out", str(run), "--resume"]) == 0

    rows = {row["iteration"]: row for row in read_rows(run / "metrics.jsonl")}
    for name in ("learn/value_loss", "time/total"):
        history = client.get_metric_history(known, name)
        assert [found.step for found in history] == ITERATIONS, "what was done again after a failure counts once"
        redone = 2 if status == "failed" else None
        assert all(found.value == rows[found.step][name] for found in history if found.step - 1 != redone)
    logged = client.get_run(known)
    assert logged.info.status == "FINISHED" and logged.info.run_name == "cartpole run"
    assert logged.data.params["num_envs"] == "4" and logged.data.params["agent.optimizer.epochs"] == "1"
    assert set(logged.data.tags) == {"mlflow.runName"}, "neither user nor source file"
    assert len(client.search_runs([logged.info.experiment_id])) == 1


EVALUATED = ["evaluation_episodes=20", "evaluation_interval=64"]
"""Two episodes after 64, 128 and 192 steps, and twenty at the end: iterations 2, 4 and 6."""


def returns(run: Path):
    """Mean returns by iteration, as the evaluations have them; the last one of an iteration counts."""
    rows = read_rows(run / "evaluations.jsonl")
    assert [row["steps"] for row in rows] == [64, 128, 192, 192]
    return {row["steps"] // 32: sum(row["returns"]) / len(row["returns"]) for row in rows}


def events(run: Path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(run / "tensorboard"))
    found.Reload()
    return {tag: {event.step: event.value for event in found.Scalars(tag)} for tag in found.Tags()["scalars"]}


def test_every_logger_gets_the_evaluations(tmp_path, monkeypatch):
    """The periodic ones and the final one, also where rows are too quick to be copied."""
    offline(monkeypatch)
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    monkeypatch.setattr(EventWriter, "INTERVAL_S", 1000.0)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    mlflow.set_tracking_uri(None)
    run = tmp_path / "run"
    assert main([*COMMAND, *EVALUATED, "--logger", "wandb,mlflow", "--out", str(run)]) == 0
    expected = returns(run)
    assert events(run)["evaluation/return"] == pytest.approx(expected)
    assert events(run)["evaluation/episodes"] == {2: 2, 4: 2, 6: 20}
    known = json.loads((run / "run.json").read_text())["loggers"]["mlflow"]
    history = mlflow.MlflowClient().get_metric_history(known, "evaluation/return")
    assert {found.step: found.value for found in history} == pytest.approx(expected)
    uploaded = {}
    for record in records(run):
        if record.WhichOneof("record_type") == "history":
            items = {item.nested_key[0] if item.nested_key else item.key: item for item in record.history.item}
            if "evaluation/return" in items:
                uploaded[record.history.step.num] = json.loads(items["evaluation/return"].value_json)
    assert uploaded == pytest.approx(expected)


def test_examinations_and_trials_are_logged(tmp_path, monkeypatch):
    """The margin of a check is what is left to its limit, negative beyond it."""
    outcomes(monkeypatch, {2, 4}, suite={4})
    run = tmp_path / "run"
    words = ["train", "velocity-flat-anymal-c-blind", "--until", "good", "--out", str(run), "--quiet", *SHORT]
    assert main(words) == 0
    found = events(run)
    assert found["examination/passed"] == {1: 0, 2: 1, 3: 0, 4: 1}
    assert found["examination/margin/standing/drift"] == pytest.approx({1: -0.155, 2: 0.035, 3: -0.155, 4: 0.035})
    assert found["examination/closest"][1] == pytest.approx(0.2 / 0.045)
    assert found["suite/passed"] == {2: 0, 4: 1} and found["suite/failed_checks"] == {2: 1, 4: 0}


def test_numbers_of_a_row_are_finite():
    row = {"passed": False, "closest": None, "missing": ["x"], "left_out": [], "checks": []}
    check = {"scenario": "slope", "metric": "clearance", "limit": 0.03, "at_least": True, "passed": False}
    row["checks"] = [check | {"value": value} for value in (0.02, None, 0.05)]
    assert numbers("examinations.jsonl", row) == {
        "examination/passed": 0.0, "examination/failed_checks": 1.0, "examination/left_out": 0.0,
        "examination/margin/slope/clearance": pytest.approx(-0.01),
    }  # fmt: skip
    row = {"returns": [], "lengths": [], "measures": {"pair accuracy": {"value": 0.75}}, "falls": 3}
    row["tracking"] = {"base_velocity": {"yaw": 0.2}}
    assert numbers("evaluations.jsonl", row) == {
        "evaluation/pair_accuracy": 0.75, "evaluation/falls": 3.0, "evaluation/tracking/base_velocity/yaw": 0.2,
    }  # fmt: skip


def test_a_service_that_fails_is_said_once(tmp_path, monkeypatch, capsys):
    mlflow = pytest.importorskip("mlflow")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://ann:secret@127.0.0.1:{unused.getsockname()[1]}")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        mlflow.set_tracking_uri(None)
        assert main([*COMMAND, "--logger", "mlflow", "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr()
    assert said.err.count("logger mlflow gets no more events") == 1 and "secret" not in said.out + said.err
    assert [row["iteration"] for row in read_rows(tmp_path / "run" / "metrics.jsonl")] == ITERATIONS
    assert list((tmp_path / "run" / "tensorboard").iterdir())


def test_one_that_is_not_installed(tmp_path, monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == "wandb" else find(name))
    assert main([*COMMAND, "--logger", "wandb", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "--logger wandb" in said and "pip install 'gaitway[loggers]'" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("names", ["neptune", "wandb,wandb", "tensorboard"])
def test_one_that_is_unknown(names):
    with pytest.raises(ConfigError, match=f"logger={names}: use wandb or mlflow"):
        resolve("cartpole", overrides=[f"logger=[{names}]"])


def test_passwords_in_addresses_stay_here():
    from gaitway.training.events import _settings

    config = resolve("cartpole", overrides=["task.kwargs={server: 'http://ann:secret@host/x'}"])
    assert _settings(config)["task"]["kwargs"] == {"server": "http://host/x"}


def test_random_numbers_do_not_depend_on_a_logger(tmp_path, monkeypatch):
    offline(monkeypatch)
    for name, words in (("with", ["--logger", "wandb"]), ("without", [])):
        assert main([*COMMAND, *words, "--out", str(tmp_path / name)]) == 0
    same = [
        [row["learn/value_loss"] for row in read_rows(tmp_path / name / "metrics.jsonl")]
        for name in ("with", "without")
    ]
    assert torch.tensor(same[0]).equal(torch.tensor(same[1]))
