"""The script for ten minutes of a GPU: what it lacks, time that is left, parts that end badly, going on, a dry run."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tree import ROOT


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import gpu

    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    return gpu


def call(script, *words):
    sys.argv[1:] = [str(word) for word in words]
    return script.main()


def place(script, folder):
    return script.Place(folder, "cuda:0", False, folder / "no", folder / "no")


def test_without_a_gpu_it_says_how_to_try_it(script, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(script, "no_gpu", lambda: "torch finds no GPU here")
    assert call(script, tmp_path / "runs") == 0
    assert "not run: torch finds no GPU here" in (said := capsys.readouterr().out) and "--dry-run" in said
    assert not (tmp_path / "runs").exists()


def test_no_part_begins_that_does_not_fit(script, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(script, "no_gpu", lambda: "")
    assert call(script, tmp_path, "--minutes", "0") == 0
    table = (tmp_path / "table.md").read_text()
    assert "==" not in capsys.readouterr().out and len(table.splitlines()) == 4 + len(script.PARTS)
    assert "| language memory | *no time*: 150 s |" in table
    assert f"| mjlab | *not run*: {ROOT / '.venv-mjlab/bin/python'} is not there |" in table


def part(script, code, **changes):
    told = script.Part("a part", 5, lambda place: [sys.executable, "-c", code], script.last_line)
    return replace(told, **changes)


def test_a_part_that_failed_is_run_again_and_one_that_is_done_is_not(script, tmp_path):
    for code, lines, done in (
        ("print('broken'); raise SystemExit(3)", ["broken", "**failed**: exit code 3, a-part.log"], False),
        ("print('87 steps/s')", ["87 steps/s"], True),
        ("print('never')", ["87 steps/s"], True),
    ):
        table = script.Table(place(script, tmp_path))
        table.run(part(script, code), time.monotonic() + 60.0)
        row = json.loads((tmp_path / "parts.json").read_text())["a part"]
        assert (row["lines"], row["done"]) == (lines, done)


def test_a_part_that_takes_too_long_ends_with_all_that_it_started(script, tmp_path):
    code = "import subprocess, time; print(subprocess.Popen(['sleep', '90']).pid, flush=True); time.sleep(90)"
    table = script.Table(place(script, tmp_path))
    table.run(part(script, code, seconds=4), time.monotonic() + 60.0)
    child, told = table.rows["a part"]["lines"]
    assert told == "**not finished** in 4 s" and not table.rows["a part"]["done"]
    status = Path("/proc") / child / "status"
    deadline = time.monotonic() + 10.0
    while status.exists() and "State:\tZ" not in status.read_text():
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.1)


def test_a_training_is_measured_without_its_first_iterations(script, tmp_path):
    rows = [{"steps": 100 * k, "wall_s": 50.0 * (k == 1) + k, "time/environment": 0.5} for k in range(1, 8)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = script.speed(tmp_path)
    assert told == "100 steps/s in training, 200 steps/s of the environment alone"


def test_what_must_be_brought_along_is_listed(script, capsys):
    assert call(script, "--needs") == 0
    said = capsys.readouterr().out
    assert "warp-lang==1.19.0" in said and "149 + 2 MB" in said and "| `pip download '.[language]' trl` |" in said


@pytest.mark.slow
def test_a_dry_run_measures_language_models_once(script, tmp_path, capsys):
    """Parts of MuJoCo Warp: tests/peers/warp."""
    words = (tmp_path, "--dry-run", "--only", "tests", "language", "grpo")
    assert call(script, *words) == 0
    rows = json.loads((tmp_path / "dry-run/parts.json").read_text())
    for name in ("tests", "grpo beside trl", "language memory"):
        assert rows[name]["done"], rows[name]
    assert "skipped" in rows["tests"]["lines"][0]
    assert [line.split(";")[0] for line in rows["grpo beside trl"]["lines"]] == ["run gaitway-0", "run trl-0"]
    assert "agent grpo" in rows["language memory"]["lines"][1]
    capsys.readouterr()
    assert call(script, *words) == 0 and "==" not in capsys.readouterr().out
