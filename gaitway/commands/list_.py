"""``gaitway list``: what there is."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..catalogue import AGENTS, WORLDS, Entry, install_line
from ..tables import make_table, show_table
from . import common

if TYPE_CHECKING:
    from rich.table import Table

KINDS = ("tasks", "robots", "worlds", "agents")

DESCRIPTION = """\
Show the tasks with their presets, the robots, the worlds and the agents, and whether each works on this machine.

examples:
  gaitway list
  gaitway list tasks
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser = common.parser(commands, "list", "show tasks, robots, worlds and agents", DESCRIPTION)
    parser.add_argument("kind", nargs="?", choices=KINDS, help="list only these")
    return parser


def run(args: argparse.Namespace) -> int:
    from ..terminal import console as make_console

    tables = {"tasks": _tasks, "robots": _robots, "worlds": _worlds, "agents": _agents}
    console = make_console()
    for kind in [args.kind] if args.kind else KINDS:
        show_table(console, tables[kind]())
    return 0


def _tasks() -> Table:
    from gaitway_ale import games
    from gaitway_gymnasium.tasks import IDS
    from gaitway_tasks.language.tasks import language_task_names, summary
    from gaitway_tasks.registry import entries

    table = make_table("task", "presets", "what is learnt")
    for name, entry in entries().items():
        table.add_row(name, ", ".join(entry.presets), entry.summary)
    for name in language_task_names():
        table.add_row(name, "", summary(name))
    table.add_row(
        "FILE.jsonl", "", "texts of your own, also .jsonl.gz and .parquet: prompts, demonstrations or preferences"
    )
    for name, env_id in IDS.items():
        table.add_row(name, "", f"{env_id} of Gymnasium")
    table.add_row("gym:ID", "", "any other id of Gymnasium or EnvPool")
    if WORLDS["ale"].missing():
        table.add_row("Atari games", "", install_line(WORLDS["ale"].extras))
    else:
        names = [game.replace("_", "-") for game in games()]
        table.add_row("Atari games", "", f"{len(names)} of them, each also as NAME-ram: {', '.join(names)}")
    return table


def _robots() -> Table:
    from gaitway_tasks.robots import ROBOTS

    table = make_table("robot", "joints", "feet", "actuator", "deploy --robot")
    for name, robot in ROBOTS.items():
        drives = [
            f"{group}: {type(law).__name__} kp {law.stiffness:g}, kd {law.damping:g}, {law.effort_limit:g} N m"
            for group, law in robot.actuators.items()
        ]
        hardware = "ros2" if robot.hardware is None else robot.hardware.name
        table.add_row(name, str(robot.num_joints), str(len(robot.foot_names)), "\n".join(drives), hardware)
    return table


def _worlds() -> Table:
    return _entries("world", WORLDS)


def _agents() -> Table:
    return _entries("agent", AGENTS)


def _entries(kind: str, entries: dict[str, Entry]) -> Table:
    table = make_table(kind, "what it is", "here")
    for name, entry in entries.items():
        trouble = install_line(entry.extras) if entry.missing() else entry.trouble()
        table.add_row(name, entry.summary, "ready" if trouble is None else trouble.partition(";")[0])
    return table
