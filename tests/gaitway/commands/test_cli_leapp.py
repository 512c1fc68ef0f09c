"""LEAPP packages on the command line: written, run and refused."""

import shutil

import numpy as np
import pytest
from gaitway_onboard.flight.reading import read_flight

from gaitway import catalogue
from gaitway.cli import main

pytest.importorskip("leapp")

BLIND = "velocity-flat-anymal-c-blind"
SMALL = [
    "evaluation_episodes=0",
    "num_envs=4",
    "agent.num_steps=4",
    "total_steps=32",
    "num_threads=1",
    "agent.optimizer.epochs=1",
]


def ours(argv, capsys):
    code = main([str(word) for word in argv])
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def run_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", BLIND, "--out", str(path), "--quiet", *SMALL]) == 0
    return path


@pytest.fixture(scope="module")
def package(run_path, tmp_path_factory):
    path = tmp_path_factory.mktemp("leapp") / "walk.leapp"
    assert main(["export", str(run_path), "--format", "leapp", "--out", str(path)]) == 0
    return path


@pytest.mark.slow
def test_the_twin_walks_with_a_package_as_with_the_bundle(run_path, package, tmp_path, capsys):
    assert ours(["export", run_path, "--out", tmp_path / "bundle"], capsys)[0] == 0
    targets = []
    for source in (tmp_path / "bundle", package):
        log = tmp_path / f"{source.name}.mcap"
        code, out, _ = ours(["run", source, "--seconds", "0.6", "--command", "0.3,0,0", "--log", log], capsys)
        assert code in (0, 1) and "policy periods" in out
        targets.append(read_flight(log).policy.targets)
    assert len(targets[0]) > 20
    np.testing.assert_allclose(targets[0], targets[1], atol=1e-4)  # closed loop: rounding grows


def test_what_is_wrong_with_a_package_is_said_in_one_line(package, run_path, tmp_path, capsys, monkeypatch):
    copy = shutil.copytree(package, tmp_path / "walk.leapp", ignore=shutil.ignore_patterns("bundle"))
    next(copy.glob("*.onnx")).unlink()
    code, _, err = ours(["validate", copy], capsys)
    assert code == 2 and "the LEAPP package lacks" in err and len(err.splitlines()) == 1
    code, _, err = ours(["run", run_path, "--robot", "anymal-c"], capsys)
    assert code == 2 and "which knows its robot; leave --robot out" in err
    gone = catalogue.Entry(summary="", modules=("leapp_that_is_not_there",), extras=("train", "mujoco", "leapp"))
    monkeypatch.setattr("gaitway.commands.common.LEAPP", gone)
    code, _, err = ours(["validate", package], capsys)
    assert code == 2 and "pip install 'gaitway[train,mujoco,leapp]'" in err
