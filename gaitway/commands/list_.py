"""``gaitway list``: show tasks, robots, grounds, worlds and agents.

Show the tasks with their presets, the robots, the grounds of --terrain, the worlds and the agents, and whether each
works on this machine.

examples:
  gaitway list
  gaitway list tasks
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..catalogue import AGENTS, WORLDS, Entry, install_line
from ..tables import make_table, show_table
from . import common

if TYPE_CHECKING:
    from rich.table import Table

KINDS = ("tasks", "robots", "grounds", "worlds", "agents")


def add_options(parser: common.Parser) -> None:
    parser.option("kind", "list only these", nargs="?", choices=KINDS)


def run(args: argparse.Namespace) -> int:
    from ..terminal import console as make_console

    tables = {"tasks": _tasks, "robots": _robots, "grounds": _grounds, "worlds": _worlds, "agents": _agents}
    console = make_console()
    for kind in [args.kind] if args.kind else KINDS:
        show_table(console, tables[kind]())
    return 0


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
