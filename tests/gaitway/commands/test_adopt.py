"""``gaitway adopt``, and a training of the folder that it writes."""

from __future__ import annotations

import sys

import pytest
from gaitway_tasks.robots import ANYMAL_C

from gaitway.cli import main


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adopted") / "my_dog"
    assert main(["adopt", str(ANYMAL_C.mjcf), "--out", str(folder), "--effort", ".*_KFE=90", "--effort", ".*=80"]) == 0
    return folder


def test_every_guess_is_printed_and_the_package_is_whole(package, capsys):
    names = {path.name for path in package.iterdir()}
    assert {"__init__.py", "tasks.py", "my-dog.xml", "LICENSE"} <= names
    text = (package / "__init__.py").read_text()
    assert '"LF_HAA"' in text and "effort_limit=90.0" in text and all(len(line) <= 120 for line in text.splitlines())
    assert main(["adopt", str(ANYMAL_C.mjcf), "--out", str(package)]) == 2
    assert "exists" in capsys.readouterr().err


@pytest.mark.slow
def test_the_folder_trains_exports_and_needs_no_module_then(package, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = ["total_steps=2048", "num_envs=32", "processes=1", "--quiet"]
    try:
        assert main(["train", str(package), "--out", "run", *small]) == 0
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "my_dog"]:
            del sys.modules[name]
    assert (tmp_path / "run/config.yaml").read_text().count("my-dog.xml") == 1
    assert main(["export", "run", "--out", "bundle"]) == 0
    assert (tmp_path / "bundle/robot.xml").is_file()


def test_a_folder_with_the_name_of_another_package_is_refused(tmp_path, capsys):
    for name in ("__init__.py", "tasks.py"):
        (tmp_path / "json").mkdir(exist_ok=True)
        (tmp_path / "json" / name).write_text("")
    assert main(["train", str(tmp_path / "json")]) == 2
    assert "json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pose", "a"], "NAME=RAD"),
        (["--gains", ".*=1"], "NAME=KP:KD"),
        (["--effort", ".*=-1"], "NAME=N"),
        (["--effort", "x=nan"], "NAME=N"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, capsys, words, said):
    assert main(["adopt", str(ANYMAL_C.mjcf), "--out", str(tmp_path / "dog"), *words]) == 2
    assert said in capsys.readouterr().err
