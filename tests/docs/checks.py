"""Check that a command of a page would be understood, without running it."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from gaitway_files.errors import UserError
from gaitway_isaaclab.registration import env_id, names
from gaitway_sim2real.hardware import ROS2, hardware_of

from gaitway import cli
from gaitway.commands.train import order_of
from gaitway.domains.table import domain_of, find_task, worlds_of
from gaitway.start import preset_of, settings_of
from gaitway.sweep.plan import make_plan
from gaitway.train_config import resolve

from .pages import ROOT, Command

sys.path += [str(ROOT / "docs/examples" / name) for name in ("", "pony", "reacher")]
ELSEWHERE = {
    "source": "activates the virtual environment",
    "ip": "the system's own",
    "ping": "the system's own",
    "ssh": "the system's own",
    "apt": "Debian's",
    "mike": "publishes versions of the site",
}
"""Programs that are not ours and say nothing about us."""
STANDS_FOR = {"<run>": "2026-01-31_12-00-00", "TASK": "hopper", "AGENT": "ppo", "N": "2", "PYTHON": "python3"}
"""Replacements of the words in a sentence that stand for others."""


def check(command: Command) -> None:
    """Raise unless the command, its options, names and settings are known."""
    try:
        _check(command)
    except ValueError as error:
        if not command.refusal or command.refusal not in str(error):
            raise
    else:
        if command.refusal:
            raise ValueError(f"it is not refused with {command.refusal!r}")


def _check(command: Command) -> None:
    if command.is_synopsis:
        _check_pattern(command)
        return
    program, *words = command.words
    if program == "gaitway":
        try:
            _check_gaitway([STANDS_FOR.get(word, word) for word in words])
        except UserError as error:
            if not (command.in_sentence and re.search("are required|expected one argument", str(error))):
                raise
            _check_pattern(command)
    elif program == "make":
        _check_make(words)
    elif program.startswith("python"):
        _check_python(words)
    elif program == "pip":
        _check_pip(words)
    elif program in ("isaaclab", "isaaclab.sh"):
        _check_isaaclab(words)
    elif program == "torchrun":
        _check_gaitway(words[words.index("gaitway") + 1 :])
    elif program not in ELSEWHERE:
        raise ValueError(f"{program!r} is in no class: see {__file__}")


@cache
def parsers() -> dict[str, argparse.ArgumentParser]:
    """By the name of the command."""
    actions = cli.build_parser()._actions
    return dict(next(action.choices for action in actions if isinstance(action, argparse._SubParsersAction)))


@cache
def options(command: str) -> frozenset[str]:
    return frozenset(parsers()[command]._option_string_actions)


def _check_pattern(command: Command) -> None:
    """Of a pattern, the command and its options."""
    found = re.search(r"\bgaitway +([\w-]+)", command.text)
    if found is None:
        return  # of make and the like: its words are checked where it stands without dots
    if found[1] not in parsers():
        raise ValueError(f"no command {found[1]!r}")
    if unknown := set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", command.text)) - options(found[1]) - {"-m"}:
        if command.words[0] == "torchrun":
            unknown -= {"--nproc_per_node", "--no-python"}
        if unknown:
            raise ValueError(f"gaitway {found[1]} has no {', '.join(sorted(unknown))}")


def _check_gaitway(words: list[str]) -> None:
    if not words or words == ["--version"] or (words[:1] == ["--completion"] and words[1:] in (["bash"], ["zsh"])):
        return
    args = cli.parse(words)
    if args.command == "train":
        resolved(args)
    if args.command == "bench":
        for task in args.tasks.split(","):
            for agent in args.agent.split(","):
                resolve(task, agent=agent, world=args.world, overrides=args.settings)
    if args.command == "sweep":
        planned(args)
    if args.command in ("twin", "deploy", "rehearse") and args.robot != ROS2:
        hardware_of(args.robot)


def planned(args: argparse.Namespace) -> object:
    """The plan of a ``gaitway sweep``."""
    given = {name: getattr(args, name) for name in ("agent", "world", "preset", "metric", "minimize", "seed", "prune")}
    return make_plan(args.task, args.space, args.settings, config_file=args.config, threads=None, **given)


def resolved(args: argparse.Namespace) -> object:
    """The configuration of a ``gaitway train``. Files and folders of the reader's own are left out."""
    cli.trust_named(args)
    if args.task.endswith(".jsonl") or args.task == "my_robot":
        return None
    order = order_of(args)
    preset = preset_of(order)
    task = find_task(args.task, preset)
    world = args.world or worlds_of(task)[0]
    return resolve(
        args.task,
        agent=args.agent or domain_of(task).usual_agent,
        preset=preset,
        overrides=[setting for setting in settings_of(order, world) if "my_rewards:" not in setting],
        options={name: value for name, value in order.options.items() if name not in ("parameters", "against")},
        seed=args.seed,
        world=args.world,
    )


@cache
def makefile() -> tuple[frozenset[str], frozenset[str]]:
    """Targets and variables, of the Makefile and of what it includes."""
    texts = [ROOT.joinpath("Makefile").read_text()]
    texts += [(ROOT / name).read_text() for name in re.findall(r"^include (\S+)", texts[0], re.MULTILINE)]
    whole = "\n".join(texts)
    targets = re.findall(r"^([a-z][\w-]*):", whole, re.MULTILINE)
    return frozenset(targets), frozenset(re.findall(r"^(\w+) *\??=", whole, re.MULTILINE))


def _check_make(words: list[str]) -> None:
    targets, variables = makefile()
    if words[:1] == ["-f"]:
        if not (ROOT / words[1]).is_file():
            raise ValueError(f"no file {words[1]}")
        words = words[2:]
    for word in words:
        name, is_setting, _ = word.partition("=")
        if name not in (variables if is_setting else targets):
            raise ValueError(f"make knows no {'variable' if is_setting else 'target'} {name!r}")


def _check_python(words: list[str]) -> None:
    if words[:1] == ["-m"]:
        if find_spec(words[1]) is None:
            raise ValueError(f"no module {words[1]}")
        source = Path(find_spec(words[1]).origin or "")
    else:
        source = ROOT / words[0]
    if words[:2] == ["-m", "venv"]:
        return
    text = source.read_text()
    for word in words:
        if word.startswith("--") and f'"{word}"' not in text:
            raise ValueError(f"{source.name} has no {word}")


@cache
def extras() -> frozenset[str]:
    return frozenset(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def _check_pip(words: list[str]) -> None:
    for word in words:
        found = re.fullmatch(r"(?:gaitway|\.)\[([\w,-]+)\]", word)
        if found and (unknown := set(found[1].split(",")) - extras()):
            raise ValueError(f"pyproject.toml has no extra {', '.join(unknown)}")
        if words[words.index(word) - 1] == "-c" and not (ROOT / word).is_file():
            raise ValueError(f"no file {word}")


def _check_isaaclab(words: list[str]) -> None:
    if words[0] in ("train", "play", "leapp") and "--task" not in words:  # named in a sentence
        return
    release = "2.3" if words[0].endswith(".py") or "-p" in words else "3.0"
    known = {env_id(name, play, release=release) for name in names(release) for play in (False, True)}
    task = words[words.index("--task") + 1]
    if task not in known:
        raise ValueError(f"no environment {task}")


def commands_of_make(*targets: str) -> list[Command]:
    """Commands that ``make`` would run for ``targets`` in an installed checkout."""
    done = subprocess.run(
        ["make", "-n", "-B", "-C", str(ROOT), "VENV=.venv", *targets], capture_output=True, text=True, check=True
    )
    lines = done.stdout.replace("\\\n", " ").splitlines()
    return [Command("Makefile", 0, line) for line in lines if re.match(r"\S*gaitway ", line)]
