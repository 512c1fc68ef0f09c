"""``make`` installs with a sign of life, and fails where pip fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PIP = """#!/bin/sh
echo "$@" > "$(dirname "$0")/arguments"
echo "Looking in indexes: https://index"
echo "Requirement already satisfied: yaml"
echo "Collecting numpy==2.4.6 (from gaitway)"
echo "  Downloading numpy-2.4.6.whl.metadata (3 kB)"
echo "Downloading torch-2.13.0.whl (850.1 MB)"
echo "Installing collected packages: numpy, torch, gaitway"
[ -z "$FAIL" ] || { echo "ERROR: no matching distribution" >&2; exit 1; }
echo "Successfully installed gaitway numpy torch"
"""


def test_help_names_every_target_that_has_a_line():
    shown = subprocess.run(["make", "-C", ROOT, "--no-print-directory", "help"], capture_output=True, text=True).stdout
    lines = dict(line.split(maxsplit=1) for line in shown.splitlines())
    assert {"help", "setup", "walk", "reason", "test", "test-slow", "test-dds", "test-vllm"} <= set(lines)
    assert "what to run before a change" in lines["test"] and "the rest of .ci/run" in lines["test-slow"]


def test_what_make_test_leaves_out_is_what_make_test_slow_runs(tmp_path):
    """Markers are complements, so that .ci/run, which calls both, runs every test."""
    for name in (".gaitway-installed", ".stamp"):
        (tmp_path / name).touch()

    def commands(target: str) -> str:
        asked = ["make", "-C", ROOT, "-n", target, "JOBS=2", f"VENV={tmp_path}", "ISAACLAB3_PYTHON=sh"]
        done = subprocess.run([*asked, f"ISAACLAB3_VENV={tmp_path}"], capture_output=True, text=True, check=True)
        return done.stdout

    quick, slow = (commands(target) for target in ("test", "test-slow"))
    assert '--dist worksteal -m "not slow"' in quick and "--dist worksteal -m slow" in slow
    assert '-m "quick and not newton and not slow"' in quick and '-m "quick and not newton and slow"' in slow
    assert "pip" not in slow  # nothing is set up
    run = (ROOT / ".ci/run").read_text()
    assert run.index("make test\n") < run.index("make test-slow\n")


@pytest.mark.parametrize("fail", ["", "yes"])
def test_an_installation_says_what_it_does(tmp_path, fail):
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(PIP)
    python.chmod(0o755)
    ready = tmp_path / "venv/.gaitway-installed"
    settings = [f"VENV={tmp_path / 'venv'}", f"PYTHON={sys.executable}", "PIP_ARGS=--pre -i 'x y'"]
    made = subprocess.run(
        ["make", "-C", ROOT, "setup", *settings],
        env={"PATH": "/usr/bin:/bin", "FAIL": fail},
        capture_output=True,
        text=True,
    )  # fmt: skip
    shown = [line for line in made.stdout.splitlines() if line.startswith("  ") and "-c constraints" not in line]
    assert shown == [
        "  numpy==2.4.6",
        "  Downloading torch-2.13.0.whl (850.1 MB)",
        "  installing 3 packages, which takes a minute or two",
    ]
    assert (made.returncode != 0) == bool(fail)
    assert ready.exists() == (not fail)
    assert ("no matching distribution" in made.stderr) == bool(fail)
    assert "--pre -i x y -c constraints.txt -e .[train" in (python.parent / "arguments").read_text()
