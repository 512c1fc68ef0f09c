"""Code that files bring or name: it runs when the user has named it, and never otherwise."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from gaitway_files import trust as trusting
from gaitway_files.trust import TrustError, trust

from gaitway.cli import main
from gaitway.commands import list_
from gaitway.domains.table import find_task
from gaitway.errors import ConfigError
from gaitway.jobs import Here, Job
from gaitway.runs.folder import RunFolder
from gaitway.train_config import dump, load, merge, resolve

pytestmark = pytest.mark.hostile("untrusted files")
MODULE = """
from pathlib import Path
Path({mark!r}).touch()
def bouncing(world, limit=1.0):
    return world.robot.joint_vel.square().sum(1)
twice = dict
"""
SMALL = [
    "evaluation_episodes=0",
    "num_envs=2",
    "agent.num_steps=4",
    "total_steps=8",
    "agent.optimizer.minibatches=1",
    "num_threads=1",
]
OWN = "{func: 'my_rewards:bouncing', weight: -1.0}"


def standing(world):
    return world.robot.joint_vel.square().sum(1)


@pytest.fixture(autouse=True)
def _nothing_trusted(monkeypatch):
    monkeypatch.setattr(trusting, "_trusted", set())
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("my_rewards", "my_envs"):
        sys.modules.pop(name, None)


@pytest.fixture
def mark(tmp_path, monkeypatch):
    """A folder that the user is in, with ``my_rewards.py``, which touches the file ``mark`` when it is imported."""
    mark, folder = tmp_path / "mark", tmp_path / "here"
    folder.mkdir()
    (folder / "my_rewards.py").write_text(MODULE.format(mark=str(mark)))
    monkeypatch.chdir(folder)
    return mark


@pytest.fixture(scope="module")
def config():
    return resolve("velocity-flat-anymal-c-blind", overrides=SMALL)


@pytest.fixture
def run(config, tmp_path, mark):
    """A run whose configuration names the module."""
    run = RunFolder.create(tmp_path / "run", config)
    text = (run.path / "config.yaml").read_text()
    own = text.replace("gaitway_tasks.mdp.rewards:lin_vel_z_l2", "my_rewards:bouncing")
    assert own != text
    (run.path / "config.yaml").write_text(own)
    return run


COMMANDS = {
    "export": "export {run} --out {out}",
    "validate": "validate {run}",
    "play": "play {run} --video {out}.mp4",
    "record": "record {run} --out {out}.npz",
    "evaluate": "evaluate {run}",
    "resume": "train velocity-flat-anymal-c-blind --out {run} --resume --quiet",
    "config": "train velocity-flat-anymal-c-blind --config {run}/config.yaml --out {out} --quiet",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_names_a_module_and_no_command_imports_it(command, run, mark, tmp_path, capsys):
    assert main(COMMANDS[command].format(run=run.path, out=tmp_path / "out").split()) == 2
    told = capsys.readouterr().err
    if command != "evaluate":  # which is for runs of language models
        assert "names code of the module 'my_rewards'" in told
        assert str(Path.cwd() / "my_rewards.py") in told
        assert "--trust my_rewards" in told
    assert not mark.exists()


def test_a_trusted_module_is_named_and_then_imported(run, mark, capsys):
    assert main(["export", str(run.path), "--out", "bundle", "--trust", "my_rewards"]) == 2
    told = capsys.readouterr().err
    assert told.index(f"importing my_rewards ({Path.cwd() / 'my_rewards.py'})") < told.index("has no checkpoint yet")
    assert mark.exists()


def test_what_the_command_line_names_needs_no_more(tmp_path, mark):
    """Training with a reward of one's own, and going on with the same command."""
    words = ["train", "velocity-flat-anymal-c-blind", "--out", str(tmp_path / "run"), "--quiet", *SMALL]
    assert main([*words, f"task.rewards.mine={OWN}"]) == 0
    trusting._trusted.clear()
    assert main([*words, "--resume"]) == 2
    assert main([*words, "--resume", f"task.rewards.mine={OWN}"]) == 0


@pytest.mark.parametrize("where", ["run", "bundle"])
def test_a_module_inside_a_run_or_bundle_is_never_imported(where, run, mark, tmp_path, monkeypatch, capsys):
    folder = run.path / "sub"
    if where == "bundle":
        folder = tmp_path / "bundle" / "sub"
        folder.mkdir(parents=True)
        (folder.parent / "contract.yaml").touch()
    folder.mkdir(exist_ok=True)
    os.replace("my_rewards.py", folder / "my_rewards.py")
    monkeypatch.chdir(folder)
    assert main(["export", str(run.path), "--out", "out", "--trust", "my_rewards"]) == 2
    assert "cannot import 'my_rewards'" in capsys.readouterr().err
    monkeypatch.syspath_prepend(folder)
    assert main(["export", str(run.path), "--out", "out", "--trust", "my_rewards"]) == 2
    assert f"lies in {folder.parent}, a run or bundle" in capsys.readouterr().err
    assert not mark.exists()


@pytest.mark.parametrize(
    "name",
    [
        "builtins:dict",
        "builtins:exec",
        "os:system",
        "subprocess:call",
        "gaitway.runs.folder:read_checkpoint",
        "gaitway_evil:f",
        "gaitway_tasks.language.remote:load_reward",
        "gaitway_tasks.mdp.rewards:torch",
        "gaitway_tasks.mdp.rewards:World",
        "my_rewards:twice",
    ],
)
@pytest.mark.parametrize("way", ["setting", "file"])
def test_what_is_no_term_is_refused_plainly(config, mark, tmp_path, name, way):
    Path("gaitway_evil.py").write_text(Path("my_rewards.py").read_text())
    setting = f"task.rewards.mine={{func: '{name}', weight: 1.0}}"
    file = tmp_path / "settings.yaml"
    file.write_text(f"task: {{rewards: {{mine: {{func: '{name}', weight: 1.0}}}}}}")
    with pytest.raises((TrustError, ConfigError), match=f"task.rewards.mine.func.*{name.partition(':')[0]}"):
        merge(config, *((None, [setting]) if way == "setting" else (file, [])))
    assert mark.exists() == (way == "setting" and name == "my_rewards:twice")


def test_an_environment_of_a_module(mark, tmp_path):
    """Named on the command line, it is imported; named by a run, it is not."""
    Path("my_envs.py").write_text(
        Path("my_rewards.py").read_text()
        + "import gymnasium\ngymnasium.register('MyCart-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    path = tmp_path / "config.yaml"
    path.write_text(dump(resolve("gym:my_envs:MyCart-v0", overrides=SMALL)))
    assert mark.exists()
    mark.unlink()
    sys.modules.pop("my_envs")
    trusting._trusted.clear()
    with pytest.raises(TrustError, match=r"config.yaml: task.env_id names code of the module 'my_envs'"):
        load(path)
    assert not mark.exists()
    trust("my_envs")
    assert load(path).task.env_id == "my_envs:MyCart-v0"


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A folder of files named as modules of Python's own, of which none may run."""
    folder, mark = tmp_path / "hostile", tmp_path / "ran"
    folder.mkdir()
    for name in ("json", "signal", "pickle", "argparse", "multiprocessing", "yaml", "torch"):
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'w').write({name!r})\nraise SystemExit(3)\n")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return mark


def test_a_module_in_the_current_folder_does_not_stand_before_pythons_own(hostile):
    done = subprocess.run([sys.executable, "-m", "gaitway", "list", "worlds"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not hostile.exists()


def test_the_processes_of_a_bench_look_for_no_modules_in_the_current_folder(hostile, tmp_path):
    process = Here().start(Job("cartpole", "no-such-agent", 0, tmp_path / "out" / "seed0"))
    assert process.wait(60) == 2
    assert not hostile.exists()


def test_no_python_that_a_command_starts_looks_for_modules_in_the_current_folder(hostile, monkeypatch):
    """Those of multiprocessing too, which are started with ``-c``."""
    code = "import multiprocessing, json; print(json.dumps([1]))"

    def start_another(args):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert json.loads(done.stdout) == [1]
        return 0

    monkeypatch.setattr(list_, "run", start_another)
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    assert main(["list", "worlds"]) == 0
    assert os.environ["PYTHONSAFEPATH"] == ""  # as it was, in the program that called
    assert not hostile.exists()


@pytest.mark.parametrize("name", ["checkpoints", "metrics.jsonl", "tensorboard"])
def test_a_run_with_links_is_not_continued(config, tmp_path, capsys, name):
    """Writing through links would change files elsewhere: old checkpoints are removed there, rows added."""
    run = RunFolder.create(tmp_path / "run", config)
    victim = tmp_path / "victim"
    victim.mkdir()
    if (run.path / name).is_dir():
        (run.path / name).rmdir()
    (run.path / name).symlink_to(victim)
    assert main(["train", "velocity-flat-anymal-c-blind", "--out", str(run.path), "--resume", "--quiet"]) == 2
    assert f"{run.path / name} is a link" in capsys.readouterr().err
    assert list(victim.iterdir()) == []


BROKEN = {
    "import nothing_here": "No module named 'nothing_here'",
    "def f(:": r"SyntaxError: invalid syntax \(my_rewards.py, line 1\)",
    "x = 1\n1 / 0": r"ZeroDivisionError: division by zero in .*my_rewards.py, line 2",
    "raise SystemExit(0)": "SystemExit: 0",
}


@pytest.mark.parametrize("source", BROKEN)
def test_a_module_that_cannot_be_imported_is_one_sentence(config, mark, source):
    Path("my_rewards.py").write_text(source)
    with pytest.raises(ConfigError, match=f"task.rewards.mine.func=.*cannot import 'my_rewards': {BROKEN[source]}"):
        merge(config, None, [f"task.rewards.mine={OWN}"])
    with pytest.raises(ConfigError, match=f"gym:my_rewards:Id: cannot import 'my_rewards': {BROKEN[source]}"):
        find_task("gym:my_rewards:Id")


@pytest.mark.parametrize("name", ["..a:b", ":b", "a.b..c:d", "\0:b", "a b:c", "x-y:z", "a/b:c"])
def test_what_is_no_module_is_said_so(config, mark, name):
    with pytest.raises(TrustError, match="is not the name of a module"):
        merge(config, None, [f"task.rewards.mine={json.dumps({'func': name, 'weight': 1.0})}"])


def test_what_a_configuration_holds_as_plain_data_is_not_trusted_for_it(mark):
    """The arguments of an environment may have any key."""
    cartpole = resolve("cartpole", overrides=[*SMALL[:1], "agent.num_steps=32"])
    held = replace(cartpole, task=replace(cartpole.task, kwargs={"func": "my_rewards:bouncing", "env_id": "my_envs:X"}))
    merge(held, None, ["seed=1"])
    assert trusting._trusted & {"my_rewards", "my_envs"} == set()


def test_a_function_of_a_program_that_is_running_needs_no_trust(config, mark):
    """As in a program of one's own, which builds a configuration and changes it by settings."""

    mine = replace(config.task.rewards["lin_vel_z_l2"], func=standing)
    own = replace(config, task=config.task.replace(rewards={**config.task.rewards, "mine": mine}))
    assert merge(own, None, ["seed=3"]).task.rewards["mine"].func is standing


def test_keys_of_signatures_are_not_modules(mark, capsys):
    """``gaitway deploy --trust`` names keys."""
    words = ["deploy", "bundle", "--robot", "unitree-go2", "--interface", "lo", "--trust", "key.pub"]
    assert main(words) == 2
    assert "key" not in trusting._trusted and "this is a bug" not in capsys.readouterr().err
