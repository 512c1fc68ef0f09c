"""``gaitway rehearse`` on the command line."""

import dataclasses
import json

import pytest
from gaitway_onboard.control.controller import Mode
from gaitway_sim2real.rehearse import suite
from gaitway_tasks.robots import GO2
from stand_bundle import make_stand_bundle

from gaitway.cli import main


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_stand_bundle(tmp_path_factory.mktemp("go2") / "bundle", GO2, stiffness=60.0, damping=2.0, speed=0.0)


@pytest.fixture
def little(monkeypatch):
    """A part of the quick part, so that it takes seconds."""
    monkeypatch.setattr(suite.Settings, "seconds", 1.5)
    monkeypatch.setattr(suite, "QUICK_TROUBLES", ("silence",))
    ramp = tuple(dataclasses.replace(each, modes=(Mode.RAMP,)) for each in suite.TROUBLES)
    monkeypatch.setattr(suite, "TROUBLES", ramp)


def test_a_rehearsal_that_passes(bundle, little, tmp_path, capsys):
    report = tmp_path / "report"
    words = ["rehearse", str(bundle), "--robot", "unitree-go2", "--quick", "--no-dds", "--minutes", "0.1"]
    assert main([*words, "--jobs", "1", "--report", str(report)]) == 0
    said = capsys.readouterr().out
    assert "PASS: 2 of 2 trials passed" in said and "[ 1/2] ok   command script" in said
    assert said.startswith("waiting for 2 trials in simulated time; the nominal walk takes")
    assert "silence in ramp: state_age" in said and "no verdict at" in said
    assert json.loads((report / "rehearsal.json").read_text())["settings"]["extent"] == "quick"
    assert "<svg" in (report / "rehearsal.html").read_text()
    assert not (bundle / "rehearsal.json").exists(), "a quick one is none that a deployment should count on"


def test_a_rehearsal_that_fails(bundle, little, tmp_path, capsys, monkeypatch):
    trouble = suite.TROUBLES[0]
    deaf = type(trouble)(name="silence", about="", causes=("battery",), provoke=trouble.provoke, modes=trouble.modes)
    monkeypatch.setattr(suite, "TROUBLES", (deaf,))
    words = ["rehearse", str(bundle), "--robot", "unitree-go2", "--quick", "--no-dds", "--minutes", "0.1"]
    assert main([*words, "--jobs", "1", "--report", str(tmp_path)]) == 1
    assert "silence in ramp: reason named 0, allowed at least 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["--robot", "unitree-go3"], "unknown robot 'unitree-go3'"),
        (["--robot", "unitree-h1"], "is for the robot 'go2'"),
        (["--robot", "unitree-go2", "--minutes", "0"], "--minutes 0: must be above 0"),
        (["--robot", "unitree-go2", "--loss", "1.5"], "--loss 1.5: must be at most 1"),
    ],
)
def test_what_cannot_be_rehearsed_is_refused(bundle, words, wrong, capsys, tmp_path):
    assert main(["rehearse", str(bundle), "--no-dds", "--report", str(tmp_path), *words]) == 2
    assert wrong in capsys.readouterr().err
