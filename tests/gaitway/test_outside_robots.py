"""Robots and tasks of other packages: the example of docs/your_robot.md, and what can be wrong with one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from gaitway_files import trust as trusting
from gaitway_files.errors import UserError
from gaitway_onboard.interface import DeployError
from gaitway_sim2real.hardware import hardware_of
from gaitway_tasks import registry
from gaitway_tasks.robots import ROBOTS, RobotDescription, RobotError, RobotTask, known
from gaitway_tasks.velocity import presets
from tree import ROOT

from gaitway.cli import main
from gaitway.errors import ConfigError
from gaitway.train_config import load, resolve

EXAMPLE = ROOT / "docs/examples/pony"
SMALL = [
    "num_envs=2", "agent.num_steps=4", "total_steps=8", "agent.optimizer.minibatches=1", "num_threads=1",
    "task.commands.base_velocity.margin=0",  # which export would calibrate
]  # fmt: skip
BLIND = "pony.tasks:BLIND"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder that the user is in, with the package beside it; nothing is trusted or known yet."""
    shutil.copytree(EXAMPLE / "pony", tmp_path / "pony")
    forget()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trusting, "_trusted", set())
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(known, "_named", {})
    monkeypatch.setattr(registry, "_called", {})
    yield tmp_path
    forget()


def forget() -> None:
    """Import the robot anew the next time, wherever it was imported from."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pony", "wrong")]:
        del sys.modules[name]


def fresh(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "gaitway", *words], cwd=cwd, capture_output=True, text=True)


@pytest.mark.slow
def test_from_training_to_a_bundle_that_runs(here, capsys):
    assert main(["train", BLIND, "--preset", "cpu", "--out", "run", *SMALL]) == 0
    assert "training velocity-flat-pony-blind with ppo" in capsys.readouterr().out
    assert "mjcf: package:pony/pony.xml" in Path("run/config.yaml").read_text()
    assert main(["train", BLIND, "--preset", "cpu", "--out", "run", "--resume", *SMALL]) == 0
    assert "is finished" in capsys.readouterr().out
    done = fresh("export", "run", "--out", "bundle", cwd=here)  # by somebody who names no module
    assert done.returncode == 0 and "importing" not in done.stderr, done.stderr
    assert Path("bundle/robot.xml").read_text() == (EXAMPLE / "pony/pony.xml").read_text()
    shutil.rmtree("pony")  # a bundle needs nothing else
    assert main(["run", "bundle", "--seconds", "0.1"]) in (0, 1)
    done = fresh("export", "run", "--out", "again", cwd=here)
    assert done.returncode == 2
    assert "task.robot.mjcf='package:pony/pony.xml': Python finds no package 'pony': install it" in done.stderr


@pytest.mark.slow
def test_a_packaged_file_is_one_of_that_package(here):
    main(["train", BLIND, "--out", "run", *SMALL])
    config = Path("run/config.yaml")
    for wrong in ("package:pony/../secret.xml", "package:pony/none.xml", "package:pony"):
        config.write_text(config.read_text().replace("package:pony/pony.xml", wrong))
        with pytest.raises(ValueError, match="has no file"):
            load(config)
        config.write_text(config.read_text().replace(wrong, "package:pony/pony.xml"))


@pytest.mark.parametrize(
    ("settings", "symmetry"), [((), "none"), (("agent.gamma=0.97",), "none"), (("agent.symmetry=canonical",), None)]
)
def test_a_robot_without_mirrors_takes_every_preset(here, settings, symmetry):
    facts = Path("pony/__init__.py")
    before, _, rest = facts.read_text().partition("    mirrors={")
    facts.write_text(f"{before}{rest.partition(chr(10) + '    },')[2]}")
    trusting.trust("pony")
    for preset in ("cpu", "sprint"):
        if symmetry is None:
            with pytest.raises(ConfigError, match=r"agent\.symmetry='canonical' needs a robot with mirrors"):
                resolve(BLIND, preset=preset, overrides=settings)
            continue
        config = resolve(BLIND, preset=preset, overrides=settings)
        assert config.agent.symmetry == symmetry and not config.task.robot.mirrors
        assert any("pony has no mirrors" in note for note in config.domain.notes(config, continued=False))


@pytest.mark.parametrize("overruled", ["num_envs=64", "num_envs=63"])
def test_a_default_that_does_not_fit_can_be_overruled(here, monkeypatch, overruled):
    trusting.trust("pony")
    monkeypatch.setattr(presets, "FEW_CORES", presets.FEW_CORES | {"num_envs": 0})
    with pytest.raises(ConfigError, match="num_envs=0"):
        resolve(BLIND, preset="cpu")
    assert f"num_envs={resolve(BLIND, preset='cpu', overrides=[overruled]).num_envs}" == overruled


WRONG = """
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import GO2, RobotDescription
from pony import PONY
from pony.tasks import WALK
from tree import ROOT
SAME_TASK = WALK.replace(name="velocity-flat-go2")
SAME_ROBOT = WALK.replace(robot=PONY.replace(name="go2"))
OWN_REWARDS = get_task("velocity-flat-go2").replace(name="go2-of-mine")
FAKE = PONY.replace(name="go2")
def walk():
    return WALK
def asks(robot):
    return WALK
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nowhere:WALK", "nowhere:WALK: cannot import 'nowhere': No module named 'nowhere'"),
        ("pony.tasks:WALKS", "pony.tasks:WALKS: pony.tasks has no 'WALKS': did you mean 'WALK'?"),
        ("pony:PONY", "pony:PONY is a Robot: a task is a gaitway_tasks.spec.Task, or a function"),
        ("wrong:asks", "wrong:asks is a function with parameters: a task is a gaitway_tasks.spec.Task, or a function"),
        ("wrong:SAME_TASK", "a task named 'velocity-flat-go2', which Gaitway has: give it a name of its own"),
        ("wrong:SAME_ROBOT", "its robot is named 'go2' and has other joints than Gaitway's"),
        ("os:path", "os is Python's or Gaitway's own"),
    ],
)
def test_what_is_wrong_with_a_task_is_said(name, told, here, capsys):
    Path("wrong.py").write_text(WRONG)
    assert main(["train", name, "--out", "run", *SMALL]) == 2
    assert told in capsys.readouterr().err
    assert not Path("run").exists()


def test_a_task_may_be_a_function_or_another_one_for_a_robot_of_ours(here):
    Path("wrong.py").write_text(WRONG)
    trusting.trust("wrong")
    assert registry.get_task("wrong:walk", "sprint").robot.name == "pony"
    assert registry.get_task("wrong:OWN_REWARDS").robot is ROBOTS["go2"]
    assert registry.presets("wrong:walk") == ["cpu", "sprint"]
    with pytest.raises(registry.UnknownNameError, match="unknown preset of wrong:walk 'gpu'"):
        registry.get_task("wrong:walk", "gpu")


def test_a_robot_of_a_named_module_is_known_and_of_others_refused(here):
    Path("wrong.py").write_text(WRONG)
    with pytest.raises(trusting.TrustError, match="add --trust pony"):
        assert "pony:PONY" in ROBOTS
    assert "pony" not in ROBOTS
    trusting.trust("pony", "wrong")
    assert ROBOTS["pony:PONY"].name == "pony" and ROBOTS["pony"] is ROBOTS["pony:DESCRIPTION"]
    with pytest.raises(RobotError, match="wrong:FAKE is a robot named 'go2', which Gaitway has"):
        ROBOTS["wrong:FAKE"]
    with pytest.raises(RobotError, match="wrong:walk is a function: a robot is a Robot or a RobotDescription"):
        ROBOTS["wrong:walk"]


def test_a_robot_of_a_named_module_has_hardware_of_its_own(here):
    Path("wrong.py").write_text(
        "import dataclasses\nfrom gaitway_tasks.robots import GO2\nfrom pony import PONY\n"
        "MINE = PONY.replace(hardware=dataclasses.replace(GO2.hardware, name='pony-1', robot='pony'))\n"
    )
    trusting.trust("pony", "wrong")
    found = hardware_of("wrong:MINE")
    assert (found.name, found.robot, found.joint_limits["FL_hip_joint"]) == ("pony-1", "pony", (-0.7, 0.7))
    with pytest.raises(DeployError, match="pony:PONY has no hardware"):
        hardware_of("pony:PONY")


def install(folder: Path, **points: str) -> None:
    """Install a package with entry points as pip would."""
    info = folder / "pony-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pony\nVersion: 0.1\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[gaitway.robots]", *lines, ""]))


def test_installed_robots_are_listed_and_broken_ones_left_out(tmp_path):
    shutil.copytree(EXAMPLE / "pony", tmp_path / "pony")
    robot = "pony:DESCRIPTION"
    install(tmp_path, pony=robot, foal=robot, mare="pony:PONY", colt="colt:X", go2="pony:PONY")
    code = (
        "from gaitway_tasks.registry import *; from gaitway_tasks.robots import ROBOTS\n"
        "print([n for n in task_names() if 'pony' in n], *ROBOTS)\n"
        "print(get_task('velocity-flat-pony-blind', 'cpu').robot.mjcf, len(task_names(installed=False)))"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "['velocity-flat-pony', 'velocity-flat-pony-blind'] anymal-c" in done.stdout
    assert f"{tmp_path}/pony/pony.xml {len(registry.task_names(installed=False))}" in done.stdout
    for told in (
        "ignoring the robot 'go2' of pony:PONY: Gaitway has one of that name",
        "left out: the entry point foal = pony:DESCRIPTION of gaitway.robots is a robot named 'pony'",
        "left out: the entry point mare = pony:PONY of gaitway.robots is a Robot: it must be a RobotDescription",
        "left out: the entry point colt = colt:X of gaitway.robots cannot be imported: ModuleNotFoundError",
    ):
        assert told in done.stderr


HERD = """
from dataclasses import replace
from gaitway_tasks.robots import RobotTask
from pony import DESCRIPTION as PONY
STAND = RobotTask(make="herd:stand", summary="{title} stands still")
DESCRIPTION = replace(PONY, tasks={**PONY.tasks, "stand-{robot}": STAND})
def stand(robot):
    from pony.tasks import flat
    return flat(robot).replace(name=f"stand-{robot.name}", commands={})
"""


def test_a_family_of_tasks_is_a_row_of_its_robot(tmp_path):
    shutil.copytree(EXAMPLE / "pony", tmp_path / "pony")
    (tmp_path / "herd.py").write_text(HERD)
    install(tmp_path, pony="herd:DESCRIPTION")
    code = (
        "from gaitway_tasks.registry import *\n"
        "print([n for n in task_names() if 'pony' in n], entries()['stand-pony'].summary)\n"
        "task = get_task('stand-pony'); print(task.name, dict(task.commands))"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "['velocity-flat-pony', 'velocity-flat-pony-blind', 'stand-pony'] Pony stands still", "stand-pony {}",
    ], done.stderr  # fmt: skip


@pytest.mark.parametrize(("name", "make"), [("stand", "herd:stand"), ("stand-{robot}", "herd.stand")])
def test_a_row_that_cannot_be_a_task_is_refused(name, make):
    with pytest.raises(UserError, match=rf"'{name}' of Go2, made by '{make}'.*stand-{{robot}}"):
        RobotDescription(robot=ROBOTS["go2"], title="Go2", tasks={name: RobotTask(make=make, summary="")})


@pytest.mark.hostile("untrusted files")
def test_a_folder_that_one_module_was_trusted_from_has_no_plug_ins(tmp_path):
    """Its dist-info makes installed packages of everything in it, for whoever looks for entry points."""
    (tmp_path / "rewards.py").write_text("def bouncing(world):\n    return world.action\n")
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nDESCRIPTION = None\n")
    install(tmp_path, evil="evil:DESCRIPTION")
    points = tmp_path / "pony-0.1.dist-info/entry_points.txt"
    points.write_text(points.read_text() + "[gymnasium.envs]\nevil = evil:DESCRIPTION\n__root__ = evil:DESCRIPTION\n")
    code = (
        "from gaitway_files.trust import function_named, trust\n"
        "trust('rewards'); print(function_named('rewards:bouncing', 'here').__name__)\n"
        "from gaitway_tasks.registry import task_names; print(len(task_names()))\n"
        "import gymnasium; gymnasium.make('CartPole-v1'); import evil"  # the last shows that it can be found
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["bouncing", str(len(registry.task_names()))] and (tmp_path / "ran").exists()
    (tmp_path / "ran").unlink()
    done = subprocess.run(
        [sys.executable, "-P", "-c", code.removesuffix("; import evil")], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0 and not (tmp_path / "ran").exists(), done.stderr
