"""The other side of ``gaitway validate --engine``, with a script in the place of the Python that has Isaac Lab."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gaitway_files.errors import UserError

import gaitway
from gaitway.backends.isaaclab_engines import IsaacLabEngine, engines
from gaitway.cli import main
from gaitway.training.progress import Counter

VERSIONS = {"isaaclab": "3.0.0", "ovphysx": "0.6", "newton": "1.6", "warp-lang": "1.17", "numpy": "2.0"}
FOUND = {"gaitway": gaitway.__version__, "versions": VERSIONS, "problem": None}
WALKS = """
for _ in range({steps}):
    os.write(int(sys.argv[-1]), b".")
told = json.load(open(folder + "/walk.json"))
given = np.load(folder + "/walk.npz")
assert told["engine"] == "physx" and told["feet"] == [["LF_FOOT"]] and told["bundle"].startswith("/")
np.savez(folder + "/recorded.npz", base_pos=given["base_pos"] + 1, command=given["command"])
"""


def python(folder: Path, found: object = FOUND, walk: str = "") -> Path:
    """A program that answers as ``gaitway.backends.in_isaaclab`` would; ``walk`` is what it does for a walk."""
    script = folder / "other.py"
    script.write_text(
        "import json, os, sys, time\nimport numpy as np\n"
        "if 'find' in sys.argv:\n"
        f"    sys.exit(print({json.dumps(found)!r})) if {isinstance(found, dict)} else sys.exit({found!r})\n"
        f"folder = sys.argv[-2]\n{walk}\n"
    )
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    program.chmod(0o755)
    return program


def walk_of(steps: int = 3) -> SimpleNamespace:
    return SimpleNamespace(
        bundle=Path("bundle"), physics_dt=0.005, decimation=4, friction=0.8, body_names=("base", "LF_FOOT"),
        feet=(("LF_FOOT",),), fall_bodies=("base",), start={"base_pos": np.zeros((2, 3))},
        command=np.ones((steps, 2, 3)),
    )  # fmt: skip


def test_what_a_walk_recorded_comes_back(tmp_path, capsys):
    (engine,) = engines(["physx"], python(tmp_path, walk=WALKS.format(steps=3)))
    assert (engine.name, engine.title) == ("physx", "PhysX")
    assert engine.software == {"isaaclab": "3.0.0", "ovphysx": "0.6"}
    recorded = engine.record(walk_of())
    np.testing.assert_array_equal(recorded["base_pos"], np.ones((2, 3)))
    np.testing.assert_array_equal(recorded["command"], np.ones((3, 2, 3)))
    assert "PhysX: starting" in capsys.readouterr().out


def test_each_engine_runs_once_in_the_order_given(tmp_path):
    names = [engine.name for engine in engines(["newton", "physx", "newton"], python(tmp_path))]
    assert names == ["newton", "physx"]
    assert engines([]) == []


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            "No module named gaitway",
            r"no working Gaitway \(No module named gaitway\): .*python -m pip install 'gaitway",
        ),
        (FOUND | {"gaitway": "0.0.1"}, r"has Gaitway 0\.0\.1, this is .*: install the same one there"),
        (
            FOUND | {"problem": "PhysX is missing: pip install x"},
            r"--engine physx: .*: PhysX is missing: pip install x$",
        ),
    ],
)
def test_a_python_that_cannot_is_refused_before_anything_runs(tmp_path, found, message):
    with pytest.raises(UserError, match=message):
        engines(["physx"], python(tmp_path, found))


def test_an_engine_that_nobody_has(capsys):
    assert main(["validate", "bundle", "--engine", "physx,bullet"]) == 2
    assert "--engine bullet: use physx or newton" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "given", "message"),
    [
        ([], "/usr/bin/python3", "--isaaclab-python is for --engine: add --engine physx"),
        (["physx"], "/no/such/python", "--engine physx: /no/such/python does not run: No such file"),
    ],
)
def test_wrong_arguments_are_named(names, given, message):
    with pytest.raises(UserError, match=message):
        engines(names, None if given is None else Path(given))


def test_without_isaac_lab_the_error_has_the_fix():
    """The environment of these tests has none."""
    with pytest.raises(
        UserError, match=r"Isaac Lab is not installed here(?s:.*)pip install.*3\.0\.0(?s:.*)--isaaclab-py"
    ):
        engines(["physx"])


@pytest.mark.parametrize(
    ("walk", "message"),
    [
        (
            "print('gaitway error: robot.xml cannot be written as USD'); sys.exit(2)",
            "^--engine physx: robot.xml cannot",
        ),
        ("print('the last words'); os._exit(9)", r"PhysX ended with exit code 9\. Its last lines:\nthe last words$"),
        ("os.write(int(sys.argv[-1]), b'..'); sys.exit('stopped')", r"exit code 1\. Its last lines:\nstopped"),
    ],
)
def test_an_engine_that_stops_says_why(tmp_path, walk, message):
    (engine,) = engines(["physx"], python(tmp_path, walk=walk))
    with pytest.raises(UserError, match=message):
        engine.record(walk_of())


def test_an_engine_that_does_not_step_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("gaitway.backends.isaaclab_engines.STALL_S", 0.5)
    (engine,) = engines(["physx"], python(tmp_path, walk="time.sleep(60)"))
    with pytest.raises(UserError, match=r"made no step for .* minutes\. Its last lines:"):
        engine.record(walk_of())


def test_control_c_ends_the_simulation(tmp_path, monkeypatch):
    walk = "open(folder + '/pid', 'w').write(str(os.getpid())); os.write(int(sys.argv[-1]), b'.'); time.sleep(60)"
    (engine,) = engines(["physx"], python(tmp_path, walk=walk))
    seen = []

    def interrupt(self, parts):
        (folder,) = tmp_path.glob("gaitway-*")
        seen.append(int((folder / "pid").read_text()))
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(Counter, "each", interrupt)
    with pytest.raises(KeyboardInterrupt):
        engine.record(walk_of())
    with pytest.raises(ProcessLookupError):
        os.kill(seen[0], 0)
    assert isinstance(engine, IsaacLabEngine) and not list(tmp_path.glob("gaitway-*"))
