"""Names are there to be copied: they are whole at every width."""

from __future__ import annotations

import re
import socket
import sys

import pytest
from gaitway_tasks.registry import task_names
from gaitway_tasks.robots import ROBOTS
from gaitway_tasks.terrain import COURSES

from gaitway.catalogue import AGENTS, WORLDS
from gaitway.cli import main
from gaitway.runs.folder import RunFolder
from gaitway.train_config import resolve


@pytest.mark.parametrize("width", [20, 40, 80])
def test_no_name_is_cut(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["list", "--all"]) == 0
    shown = capsys.readouterr().out
    words = {word for line in shown.splitlines() for word in line.replace("│", " ").split()}
    assert {*task_names(), *ROBOTS, *COURSES, *WORLDS, *AGENTS} <= words
    assert "…" not in shown
    assert all(len(line) <= width for line in shown.splitlines() if line[:1].isspace())  # names stand at the margin


def test_doctor_cuts_nothing_either(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr("gaitway.commands.doctor._rendering", lambda: "not tried")
    main(["doctor", "--all"])
    shown = capsys.readouterr().out
    words = " ".join(shown.replace("│", " ").split())
    assert "…" not in shown
    for name in ("onnxruntime", "gaitway deploy", "imageio-ffmpeg"):
        assert name in words


@pytest.mark.parametrize("command", ["list", "doctor"])
def test_one_screen_is_enough(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("gaitway.commands.doctor._rendering", lambda: "not tried")
    assert main([command]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    words = {word.strip(",;") for line in lines for word in line.split()}
    assert words >= ({*AGENTS, *WORLDS, *ROBOTS} if command == "list" else {"train", "mujoco", "gymnasium", "--all"})


def test_doctor_tells_what_is_missing_from_what_is_broken(capsys, monkeypatch, tmp_path):
    """A robot's computer has no torch, and nothing is wrong with it; half a library is."""
    monkeypatch.setattr("gaitway.commands.doctor._rendering", lambda: "not tried")
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("gaitway.commands.doctor._bfloat16", lambda: "unknown without torch")
    monkeypatch.setattr("gaitway.commands.doctor._gpu", lambda: "unknown without torch")
    assert main(["doctor"]) == 0
    (tmp_path / "gymnasium.py").write_text("raise OSError('libX.so: not found')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "gymnasium"]:
        monkeypatch.delitem(sys.modules, name)
    capsys.readouterr()
    assert main(["doctor"]) == 1
    assert "broken: gymnasium: OSError: libX.so: not found" in capsys.readouterr().out


def test_a_report_names_no_folder_and_no_server(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gaitway.commands.doctor._rendering", lambda: "not tried")
    config = resolve("cartpole")
    home = tmp_path / "Jürgen Müller"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LOGNAME", "jürgen")
    secret = home / "secret customer" / "run"
    folder = RunFolder.create(secret, config)
    missing = f"{secret}/x.xml at https://me:pass@inside.example:80/models/x, ~/keys/mine"
    folder.update(error=f"FileNotFoundError: {missing}; jürgen may not read {home}")
    out = tmp_path / "report.txt"
    assert main(["doctor", "--report", str(out), "--run", str(secret)]) == 0
    text = out.read_text()
    assert "gamma:" in text and "torch" in text and "x.xml" in text and "mine" in text
    private = ("secret", "inside", "pass", "keys", "Jürgen", "Müller", "jürgen", socket.gethostname())
    for word in (*private, *tmp_path.parts[1:]):
        assert not re.search(rf"\b{re.escape(word)}\b", text), word
    assert main(["doctor", "--run", str(secret)]) == 2
    assert "--report" in capsys.readouterr().err
