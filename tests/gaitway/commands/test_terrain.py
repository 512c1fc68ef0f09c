"""``--terrain`` of every command that has a simulated robot."""

import json

import pytest
from gaitway_tasks.ground import LEVEL
from gaitway_tasks.robots import GO2
from gaitway_tasks.terrain import Course
from stand_bundle import make_stand_bundle

from gaitway.cli import main, parse
from gaitway.commands.common import ground_of

COMMANDS = (
    ["run", "bundle"], ["twin", "unitree-go2"], ["rehearse", "bundle", "--robot", "unitree-go2"], ["play", "bundle"],
    ["demo"],
)  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS)
def test_it_is_read_before_anything_starts(words, capsys):
    assert ground_of(parse([*words, "--terrain", "stairs-up:0.10"])) == Course(name="stairs-up", number=0.1)
    assert ground_of(parse(words)) == LEVEL
    assert main([*words, "--terrain", "stairs-up:10"]) == 2
    said = capsys.readouterr().err
    assert "--terrain" in said and "from 0 to 0.3 m" in said and said.count("\n") == 1


def test_isaac_lab_has_its_own(capsys, tmp_path):
    bundle = make_stand_bundle(tmp_path / "bundle")
    assert main(["play", str(bundle), "--world", "isaaclab", "--terrain", "waves:0.1"]) == 2
    assert "leave out --world isaaclab" in capsys.readouterr().err


def test_a_robot_is_rehearsed_on_it_and_the_bundle_keeps_no_verdict_of_it(tmp_path, monkeypatch, capsys):
    from gaitway_sim2real.rehearse import suite

    bundle = make_stand_bundle(tmp_path / "bundle", GO2, stiffness=60.0, damping=2.0, speed=0.0)
    monkeypatch.setattr(suite.Settings, "seconds", 1.5)
    monkeypatch.setattr(suite.Settings, "troubles", ())
    words = ["rehearse", str(bundle), "--robot", "unitree-go2", "--no-dds", "--jobs", "1", "--minutes", "0.1"]
    assert main([*words, "--terrain", "stairs-down:0.1", "--report", str(tmp_path / "report")]) == 0
    assert "PASS" in capsys.readouterr().out
    found = json.loads((tmp_path / "report" / "rehearsal.json").read_text())
    assert found["settings"]["ground"] == "Stairs down, 10 cm"
    assert not (bundle / "rehearsal.json").exists()
