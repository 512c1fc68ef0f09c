"""``make`` installs with a sign of life, and fails where pip fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tree import ROOT

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
    checks = {"check", "test", "test-slow", "test-dds", "test-verifiers", "test-vllm", "release-check"}
    assert checks | {"help", "setup", "demo", "walk", "reason", "act", "follow"} <= set(lines)
    assert "what to run before a change" in lines["test"] and "what check adds" in lines["test-slow"]


def test_what_make_test_leaves_out_is_what_make_test_slow_runs_and_make_check_runs_all(tmp_path):
    for name in (".gaitway-installed", ".gaitway-smollm2", ".stamp"):
        (tmp_path / name).touch()

    def commands(target: str) -> str:
        asked = ["make", "-C", ROOT, "-n", target, "JOBS=2", f"VENV={tmp_path}", "ISAACLAB3_PYTHON=sh"]
        done = subprocess.run([*asked, f"ISAACLAB3_VENV={tmp_path}"], capture_output=True, text=True, check=True)
        return done.stdout

    quick, slow, both = (commands(target) for target in ("test", "test-slow", "check"))
    assert '--dist worksteal -m "not slow"' in quick and "--dist worksteal -m slow" in slow
    assert '-m "quick and not newton and not slow"' in quick and '-m "quick and not newton and slow"' in slow
    assert "--dist worksteal\n" in both and '-m "quick and not newton"\n' in both
    assert "pip" not in slow  # nothing is set up
    assert (ROOT / ".ci/run").read_text().endswith("exec make check\n")


def installed(venv: Path, target: str, path: str = "/usr/bin:/bin") -> str:
    """Arguments of the installer that making ``target`` calls in ``venv``; empty if it calls none."""
    said = venv / "bin/arguments"
    said.unlink(missing_ok=True)
    stamps = {"WALK": venv / ".gaitway-walker", "DEMO": venv / ".gaitway-demo"}
    words = ["make", "-C", ROOT, str(stamps.get(target, target))]
    settings = [f"VENV={venv}", f"PYTHON={sys.executable}"]
    subprocess.run([*words, *settings], env={"PATH": path}, capture_output=True, text=True, check=True)
    return said.read_text() if said.exists() else ""


@pytest.fixture
def venv(tmp_path) -> Path:
    """A virtual environment whose Python only notes what it is asked to install."""
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(PIP)
    python.chmod(0o755)
    return tmp_path / "venv"


def test_each_installs_no_more_than_it_needs(venv):
    assert "-e .[mujoco]\n" in installed(venv, "DEMO")
    assert "-e .[train,mujoco]\n" in installed(venv, "WALK")
    assert "-e .[train,mujoco,gyms,atari,language,robot,dev]\n" in installed(venv, "setup")
    assert installed(venv, "DEMO") == installed(venv, "WALK") == installed(venv, "setup") == ""


def test_what_the_tests_install_is_enough_for_walking_and_the_demo(venv):
    assert ",dev]" in installed(venv, "setup")
    assert installed(venv, "DEMO") == installed(venv, "WALK") == installed(venv, "setup") == ""


@pytest.mark.parametrize(("target", "extras"), [("demo", "mujoco"), ("walk", "train,mujoco")])
def test_a_target_needs_its_small_installation_only(target, extras):
    shown = subprocess.run(
        ["make", "-C", ROOT, "-n", target, "VENV=nowhere"], capture_output=True, text=True, check=True
    ).stdout
    assert f"'.[{extras}]'" in shown and ",dev]" not in shown


def test_uv_installs_where_it_is_found(venv, tmp_path):
    uv = tmp_path / "path/uv"
    uv.parent.mkdir()
    uv.write_text(f'#!/bin/sh\necho "uv $@" > {venv}/bin/arguments\n')
    uv.chmod(0o755)
    asked = installed(venv, "WALK", f"{uv.parent}:/usr/bin:/bin")
    assert asked.startswith(f"uv pip install --python {venv}/bin/python ")
    assert asked.endswith(" -c constraints.txt -e .[train,mujoco]\n")


@pytest.mark.parametrize("fail", ["", "yes"])
def test_an_installation_says_what_it_does(venv, fail):
    ready = venv / ".gaitway-installed"
    settings = [f"VENV={venv}", f"PYTHON={sys.executable}", "PIP_ARGS=--pre -i 'x y'"]
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
    assert "--pre -i x y -c constraints.txt -e .[train" in (venv / "bin/arguments").read_text()
