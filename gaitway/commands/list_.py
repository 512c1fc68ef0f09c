"""``gaitway list``: show tasks, robots, grounds, worlds and agents.

Show the names of tasks, robots, grounds, worlds and agents on one screen. With one kind, or --all, also describe each,
list the presets of tasks, and say what works on this machine.

examples:
  gaitway list
  gaitway list tasks
  gaitway list --all
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .. import options
from ..catalogue import AGENTS, WORLDS, Entry, install_line
from ..tables import make_table, show_table

if TYPE_CHECKING:
    from rich.table import Table

KINDS = ("tasks", "robots", "grounds", "worlds", "agents")


def add_options(parser: options.Parser) -> None:
    parser.option("kind", "list only these", nargs="?", choices=KINDS)
    parser.switch("--all", "list all, with descriptions")


def run(args: argparse.Namespace) -> int:
    from ..terminal import console as make_console

    tables = {"tasks": _tasks, "robots": _robots, "grounds": _grounds, "worlds": _worlds, "agents": _agents}
    console = make_console()
    if args.kind is None and not args.all:
        show_table(console, _names())
        print("gaitway list KIND, or --all, says what each is")
        return 0
    for kind in [args.kind] if args.kind else KINDS:
        show_table(console, tables[kind]())
    return 0


def _names() -> Table:
    """Names of every kind, on one screen."""
    from gaitway_tasks.robots import ROBOTS
    from gaitway_tasks.terrain import COURSES

    from ..domains.table import DOMAINS, domains

    table = make_table("what", "names")
    table.box, table.show_header = None, False
    for row, domain in zip(DOMAINS, domains(), strict=True):
        names = [name for name, _, _ in domain.facts()]
        names = names if len(names) > 1 else list(domain.names()) or names
        what = f"{row.name}s".replace("'s tasks", " tasks").replace("environments", "tasks")  # narrow, for one screen
        table.add_row(what, _few(_by_robot(names, ROBOTS)))
    table.add_row("robots", ", ".join(ROBOTS))
    table.add_row("grounds", _few([*COURSES, "slope"]))
    table.add_row("worlds", ", ".join(WORLDS))
    table.add_row("agents", ", ".join(AGENTS))
    return table


def _by_robot(names: Iterable[str], robots: Iterable[str]) -> list[str]:
    """Names of tasks with ROBOT in the place of a robot's, and both variants as one, once each."""
    any_robot = rf"-({'|'.join(sorted(robots, key=len, reverse=True))})(?=-|$)"
    found = list(dict.fromkeys(re.sub(any_robot, "-ROBOT", name) for name in names))
    return [f"{name}[-blind]" if f"{name}-blind" in found else name for name in found if not name.endswith("-blind")]


def _few(names: list[str], most: int = 10) -> str:
    """The first of the names; a pattern in capitals is always there."""
    if len(names) <= most:
        return ", ".join(names)
    patterns = [name for name in names[most:] if re.search("[A-Z]", name)]
    return ", ".join([*names[:most], *patterns]) + f" and {len(names) - most - len(patterns)} more"


def _tasks() -> Table:
    from ..domains.table import domains

    table = make_table("task", "presets", "what is learnt")
    for domain in domains():
        for name, presets, summary in domain.facts():
            table.add_row(name, "\n".join(presets), summary)
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


def _grounds() -> Table:
    from gaitway_tasks.terrain import COURSES

    table = make_table("ground", "what its number is", "up to", "what it is")
    for name, course in COURSES.items():
        table.add_row(name, course.number, f"{course.most:g} m", course.title)
    table.add_row("slope", "angle", "90 degrees", "Slope along x")
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
