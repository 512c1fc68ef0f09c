"""Names are there to be copied: they are whole at every width."""

from __future__ import annotations

import pytest
from gaitway_tasks.registry import task_names
from gaitway_tasks.robots import ROBOTS
from gaitway_tasks.terrain import COURSES

from gaitway.catalogue import AGENTS, WORLDS
from gaitway.cli import main


@pytest.mark.parametrize("width", [20, 40, 80])
def test_no_name_is_cut(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    words = {word for line in shown.splitlines() for word in line.replace("│", " ").split()}
    assert {*task_names(), *ROBOTS, *COURSES, *WORLDS, *AGENTS} <= words
    assert "…" not in shown
    assert all(len(line) <= width for line in shown.splitlines() if line[:1].isspace())  # names stand at the margin


def test_doctor_cuts_nothing_either(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr("gaitway.commands.doctor._rendering", lambda: "not tried")
    main(["doctor"])
    shown = capsys.readouterr().out
    words = " ".join(shown.replace("│", " ").split())
    assert "…" not in shown
    for name in ("onnxruntime", "gaitway deploy", "imageio-ffmpeg"):
        assert name in words
