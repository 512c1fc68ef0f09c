"""Hostile words on the command line and in settings: each gets one sentence and exit code 2, none a traceback."""

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from gaitway_language.engines.vllm_server import VLLMServerEngine
from gaitway_onboard.control.console import Console
from gaitway_tasks.language.remote import load_reward

from gaitway import cli
from gaitway.config.tree import to_tree
from gaitway.errors import ConfigError
from gaitway.outcome import BUG, NOT_DONE, WRONG_INPUT, outcome
from gaitway.runs.folder import RUN_FORMAT
from gaitway.terminal import console, guarded, overwrite
from gaitway.train_config import config_from_tree, resolve
from gaitway.training import memory

pytestmark = pytest.mark.hostile("command line")

ESCAPES = "\x1b]0;title\x07\x1b[2J"
LONG = "9" * 5000
NUMBERS = ("", "x", "nan", "inf", "-inf", "-1e300", "1e300", LONG, "0x10", "1,2", "-9223372036854775809")
PATHS = ("", " ", "a\0b", "\udcff")
TEXTS = ("a\0b", "\udcff", f"{ESCAPES}x", "../..", "{", "x" * 5000, "[red]x", "1e400,0,0", "http://[", ":")
COMMANDS = {
    "train": ["train", "nothing"],
    "bench": ["bench", "nothing"],
    "sweep": ["sweep", "nothing", "--space=a=1..2"],
    "compare": ["compare", "nowhere"],
    "evaluate": ["evaluate", "no/where", "--task", "nothing"],
    "chat": None,  # asks a hub for what is no folder
    "report": ["report", "nowhere", "--html", "page.html"],
    "play": ["play", "nowhere"],
    "validate": ["validate", "nowhere"],
    "export": ["export", "nowhere", "--out", "b"],
    "import": ["import", "nowhere", "--out", "b"],
    "convert": ["convert", "nowhere", "--out", "r.usd"],
    "record": ["record", "nowhere", "--out", "r.npz"],
    "diagnose": ["diagnose", "nowhere", "--recording", "none.npz"],
    "run": ["run", "nowhere"],
    "deploy": ["deploy", "nowhere", "--robot", "nothing", "--interface", "lo", "--yes"],
    "twin": ["twin", "nothing"],
    "rehearse": ["rehearse", "nowhere", "--robot", "nothing", "--no-dds"],
    "replay": ["replay", "nowhere"],
    "identify": ["identify", "nowhere", "--robot", "nothing", "--out", "p.yaml"],
}


def attacks(command: str) -> list[list[str]]:
    """The command with each of its options at each hostile value; it could not do anything even with a good one."""
    top = cli.build_parser()
    subs = next(action.choices for action in top._actions if isinstance(action, argparse._SubParsersAction))
    found = [[command, *[word] * 3] for word in TEXTS[:2]]
    for action in subs[command]._actions:
        if action.nargs == 0 or not action.option_strings or action.dest == "help":
            continue
        is_number = "convert" in getattr(action.type, "__name__", "") or action.type in (int, float)
        values = NUMBERS if is_number else PATHS if action.type is Path else TEXTS
        found += [[*COMMANDS[command], f"{action.option_strings[-1]}={value}"] for value in values]
    return found


@pytest.mark.parametrize("command", [name for name, words in COMMANDS.items() if words])
def test_no_value_of_an_option_is_a_traceback(command, tmp_path, monkeypatch, capsys, record_property):
    monkeypatch.chdir(tmp_path)
    tried = attacks(command)
    record_property("attacks", len(tried))
    for words in tried:
        code = cli.main(words)
        out, err = capsys.readouterr()
        shown = ascii(" ".join(words))[:200]
        assert code == 2 and err.startswith("gaitway: ") and "Traceback" not in err, (shown, code, err[-500:])
        assert not {"\x1b", "\x07", "\0"} & set(out + err) and len(err) < 9000, shown
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "cartpole", "--seed", "-1"], "--seed -1: must be at least 0"),
        (["train", "cartpole", "seed=-1"], "seed=-1: must be from 0"),
        (["train", "cartpole", f"seed={LONG}"], "seed="),
        (["train", "cartpole", "seed=99999999999999999999999"], "has room in 64 bits"),
        (["train", "cartpole", "agent.kind=[]"], "agent.kind=[]: use one of"),
        (["train", "cartpole", "num_envs=1e12", "total_steps=1e15"], "num_steps needs at least 2,384,185.8 GiB"),
        (["train", "cartpole", "agent.model.actor_hidden=[1000000,1000000]"], "actor_hidden needs at least 14,901"),
        (["train", "cartpole", "agent.model.recurrent=gru", "agent.model.memory_size=1000000"], "GiB free"),
        (["train", "cartpole", "num_envs=100000", "agent.num_steps=1000000", "total_steps=1e15"], "GiB free"),
        (["train", "pendulum", "--agent", "sac", "agent.buffer_size=1e12"], "agent.buffer_size needs"),
        (["train", "arithmetic", "--agent", "sft", "--model", "tiny", "language.tiny.hidden_size=1e6"], "tiny needs"),
        (["train", "velocity-flat-go2", "task.timing.episode_length_s=.inf"], "expected a finite number"),
        (["train", "velocity-flat-go2", "task.timing.episode_length_s=.nan"], "expected a finite number"),
        (["train", "velocity-flat-go2", "task.timing.episode_length_s=1e300"], "expected a finite number"),
        (["train", "velocity-flat-go2", "task.timing.episode_length_s=1e30"], "more than 0 s and at most"),
        (["train", "velocity-flat-go2", "task.timing.physics_dt=1e-9"], "a physics step is of"),
        (["train", "velocity-flat-go2", "task.terminations.base_contact.params.bodies='[red'"], "no pattern of names"),
        (["train", "arithmetic", "--model", "tiny", "--rollout", "vllm-server", "--server", "http://["], "http://host"),
        (["train", "arithmetic", "--model", "tiny", "--reward-model", "http://x:99999"], "http://host:port"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_settings_that_cannot_be_are_refused_before_anything_is_built(words, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = cli.main(words)
    err = capsys.readouterr().err
    assert code == 2 and told in err and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def numbers_in(tree, path=()):
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from numbers_in(value, (*path, key))
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield path


@pytest.mark.parametrize(("task", "every"), [("cartpole", 1), ("velocity-flat-go2", 7)])
def test_no_number_of_a_configuration_may_be_one_that_nothing_computes_with(task, every, record_property):
    tree = to_tree(resolve(task))
    paths = list(numbers_in(tree))[::every]
    values = (math.nan, math.inf, -math.inf, 1e300, 10**400)
    record_property("attacks", len(paths) * len(values))
    for path in paths:
        part = tree
        for key in path[:-1]:
            part = part[key]
        before = part[path[-1]]
        for value in values:
            part[path[-1]] = value
            with pytest.raises(ConfigError, match=path[-1]):
                config_from_tree(tree)
        part[path[-1]] = before


def test_the_estimate_of_memory_is_no_more_than_a_training_takes():
    config = resolve("cartpole")
    parts = memory.estimate(config)
    assert parts["agent.model.actor_hidden"] == 16 * (64 + 64 * 64)
    assert sum(parts.values()) < 2**20
    memory.check(config)


# ---- how an error ends -----------------------------------------------------------------------------------------------


def raised(act):
    try:
        act()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def halted(name):
    def act():
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    return act


def deep_json():
    json.loads("[" * 100_000)


def endless():
    return endless()


def text_of_bytes(path: Path):
    path.write_bytes(b"\xff\xfe\x00")
    path.read_text("utf-8")


@pytest.mark.parametrize(
    ("act", "code", "told"),
    [
        (lambda: load_reward("x"), WRONG_INPUT, "module:function"),  # a message of a lower floor
        (lambda: int("x"), BUG, "bug"),  # one that an operation raises
        (lambda: np.zeros(3).reshape(2), BUG, "bug"),  # and one that a library raises
        (lambda: {}["x"], BUG, "bug"),
        (lambda: np.zeros(10**14), NOT_DONE, "out of memory (Unable to allocate"),
        (lambda: torch.zeros(10**14), NOT_DONE, "out of memory"),
        (deep_json, WRONG_INPUT, "nested too deeply"),
        (endless, BUG, "bug"),
        (halted("numpy"), WRONG_INPUT, "pip install gaitway"),
        (halted("rich.table"), WRONG_INPUT, "pip install gaitway"),
        (halted("cyclonedds.idl"), WRONG_INPUT, "pip install 'gaitway[robot]'"),
        (halted("gaitway.none"), BUG, "bug"),
        (lambda: VLLMServerEngine(torch.nn.Linear(1, 1), "http://127.0.0.1:9"), WRONG_INPUT, "http://127.0.0.1:9"),
        (lambda: Path("/proc/none/x").read_bytes(), WRONG_INPUT, "/proc/none/x: No such file"),
    ],
)
def test_what_is_a_message_and_what_a_bug(act, code, told):
    found = outcome(raised(act))
    assert found[0] == code and told in found[1]


def test_a_file_that_is_no_text_is_named(tmp_path):
    code, message = outcome(raised(lambda: text_of_bytes(tmp_path / "notes.yaml")))
    assert code == WRONG_INPUT and f"{tmp_path / 'notes.yaml'} is not text in UTF-8" in message


@pytest.mark.parametrize("package", ["rich", "omegaconf", "yaml"])
def test_a_core_package_that_is_missing_is_named(package, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("gaitway.commands.list_.run", lambda args: __import__(package) and 0)
    assert cli.main(["list"]) == 2
    assert f"{package} is missing" in capsys.readouterr().err


# ---- Ctrl-C ----------------------------------------------------------------------------------------------------------


def test_before_main_next_to_nothing_is_imported():
    code = "import os, sys; known = set(sys.modules); import gaitway.cli; print(*set(sys.modules) - known)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(cli.__file__).parents[1],
    )
    assert set(done.stdout.split()) == {"gaitway", "gaitway.cli", "__future__"}


@pytest.mark.parametrize("moment", ["gaitway.terminal.guarded", "gaitway.cli.parse", "gaitway.commands.list_.run"])
def test_ctrl_c_is_answered_in_a_word_at_every_moment(moment, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(moment, interrupted)
    assert cli.main(["list"]) == 130
    assert capsys.readouterr().err == "gaitway: interrupted\n"


# ---- what is shown ---------------------------------------------------------------------------------------------------


def test_names_cannot_command_the_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["play", f"{ESCAPES}walk"]) == 2
    assert capsys.readouterr().err == "gaitway: no run folder or bundle at \\x1b]0;title\\x07\\x1b[2Jwalk\n"


def test_tables_show_names_as_they_are(capsys):
    from rich.table import Table

    table = Table()
    table.add_column("name")
    table.add_row(f"[red]{ESCAPES}[/]")
    with guarded():
        console(width=60).print(table)
        overwrite(ESCAPES)
    out = capsys.readouterr().out
    assert "[red]\\x1b]0;title\\x07\\x1b[2J[/]" in out
    assert out.endswith("\r\x1b[2K\\x1b]0;title\\x07\\x1b[2J") and out.count("\x1b") == 1


def test_what_a_robot_says_is_shown_as_text(capsys):
    with guarded(), Console() as operator:
        operator.say(f"robot {ESCAPES}")
    assert capsys.readouterr().out == "robot \\x1b]0;title\\x07\\x1b[2J\n"


def test_a_terminal_that_knows_ascii_only_gets_all():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    words = [sys.executable, "-m", "gaitway", "play", "lauf-ü-日本"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, "gaitway: no run folder or bundle at lauf-\\xfc-\\u65e5\\u672c\n")


def test_a_configuration_of_bytes_is_named(tmp_path, capsys):
    (tmp_path / "c.yaml").write_bytes(b"seed: \xff")
    assert cli.main(["train", "cartpole", "--config", str(tmp_path / "c.yaml")]) == 2
    (tmp_path / "d.yaml").write_text(yaml.safe_dump({"seed": -1}))
    assert cli.main(["train", "cartpole", "--config", str(tmp_path / "d.yaml")]) == 2
    err = capsys.readouterr().err
    assert "c.yaml" in err and "seed=-1" in err and "Traceback" not in err


def test_a_run_whose_record_lacks_what_every_run_has_is_damaged(tmp_path, capsys):
    (tmp_path / "run.json").write_text(json.dumps({"gaitway_run": RUN_FORMAT, "status": "finished"}))
    assert cli.main(["export", str(tmp_path), "--out", str(tmp_path / "b")]) == 2
    assert "run.json is damaged" in capsys.readouterr().err
