"""LEAPP packages on the command line: run and refused."""

import shutil

import pytest
from gaitway_sim2real.imports.leapp.bundle import bundle_of_package
from leapp_packages import simple, write

from gaitway.cli import main

pytest.importorskip("leapp")


def ours(argv, capsys):
    code = main([str(word) for word in argv])
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return write(tmp_path_factory.mktemp("leapp"), simple, ("robot_joint_pos", "robot_root_ang_vel_b"))


@pytest.mark.slow
def test_the_twin_walks_with_a_package(package, tmp_path, capsys):
    copy = shutil.copytree(package, tmp_path / package.name)
    code, out, _ = ours(["run", copy, "--seconds", "0.6", "--command", "0.3,0,0"], capsys)
    assert code in (0, 1) and "policy periods" in out


def test_what_is_wrong_with_a_package_is_said_in_one_line(package, tmp_path, capsys, monkeypatch):
    copy = shutil.copytree(package, tmp_path / "walk.leapp")
    next(copy.glob("*.onnx")).unlink()
    code, _, err = ours(["validate", copy], capsys)
    assert code == 2 and "the LEAPP package lacks" in err and len(err.splitlines()) == 1
    bundle = bundle_of_package(package, tmp_path / "bundle", say=lambda text: None)
    code, _, err = ours(["run", bundle, "--robot", "anymal-c"], capsys)
    assert code == 2 and "--robot anymal-c" in err and "leave --robot out" in err
    monkeypatch.setattr("gaitway_sim2real.imports.readers.leapp.find_spec", lambda name: None)
    code, _, err = ours(["validate", package], capsys)
    assert code == 2 and "pip install 'gaitway[train,mujoco,leapp]'" in err
