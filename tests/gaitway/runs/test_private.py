"""Names of people and hosts in what a training leaves behind."""

import re
import shlex
import socket
import sys

import pytest

from gaitway.cli import main
from gaitway.runs.private import private
from gaitway.runs.rows import read_rows

TRAIN = (
    "train cartpole --quiet num_envs=4 agent.num_steps=8 total_steps=96 evaluation_episodes=0 "
    "agent.optimizer.epochs=1 agent.optimizer.workers=1"
)


def test_a_run_names_neither_user_nor_host(tmp_path, monkeypatch):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    home = tmp_path / "home" / "annabel"
    home.mkdir(parents=True)
    for name, value in {"HOME": str(home), "USER": "annabel", "LOGNAME": "annabel"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(socket, "gethostname", lambda: "desk-of-annabel")
    monkeypatch.setattr(sys, "argv", ["gaitway", *shlex.split(TRAIN), "--out", str(home / "walk")])
    assert main() == 0
    files = [path for path in (home / "walk").rglob("*") if path.is_file()]
    assert not [path for path in files if "annabel" in path.name or b"annabel" in path.read_bytes()]
    assert '".../walk"' in (home / "walk/run.json").read_text()

    (events,) = (path for path in files if path.parent.name == "tensorboard")
    assert re.fullmatch(r"events\.out\.tfevents\.\d{10}\.\d{6}", events.name)
    last = read_rows(home / "walk/metrics.jsonl")[-1]
    shown = EventAccumulator(str(events.parent)).Reload().Scalars("steps")[-1]
    assert (shown.step, shown.value) == (last["iteration"], last["steps"])


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("--out=/home/ann/runs/walk", "--out=.../walk"),
        ("file:/home/ann/dog.py:DOG", "file:.../dog.py:DOG"),
        ("~ann/runs/walk", ".../walk"),
        ("http://ann@lab.example/walk", "http://.../walk"),
        ("runs/walk", "runs/walk"),
        ("agent.learning_rate=1e-3", "agent.learning_rate=1e-3"),
        (f"on {socket.gethostname()}s", f"on {socket.gethostname()}s"),
    ],
)
def test_private(word, wanted):
    assert private(word) == wanted
