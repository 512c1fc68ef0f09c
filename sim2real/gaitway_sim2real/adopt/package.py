"""Package of an adopted robot: its facts as a person would write them, its tasks and its license."""

from __future__ import annotations

import importlib.util
import pprint
import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from gaitway_files.errors import NotDone, UserError
from gaitway_files.writing import write_text
from gaitway_tasks.robots import Robot
from gaitway_tasks.robots.known import own

from .standing import take_picture

WIDTH = 116
LICENSE_BYTES = 1_000_000

TASKS = '''"""Tasks of {title}: velocity commands on flat ground."""

from gaitway_tasks.velocity import blind, legged

from . import ROBOT

WALK = legged.flat(ROBOT)
BLIND = blind(WALK)  # the same task from what a robot measures
'''
FACTS = '''"""{name}, made by gaitway adopt from {file}.

{notes}
"""

from pathlib import Path

from gaitway_tasks.robots import {imports}, Robot, RobotDescription, velocity_tasks

ROBOT = Robot(
{fields}
    mjcf=Path(__file__).with_name("{model}"),
)

DESCRIPTION = RobotDescription(
    robot=ROBOT,
    title="{name}",
    tasks=velocity_tasks("gaitway_tasks.velocity.legged:flat", blind=True, presets=("cpu", "sprint")),
)
'''


def check_names(out: Path, name: str) -> None:
    """Raise for names of a package or robot that Python, Gaitway or a folder has."""
    if out.exists() or out.is_symlink():
        raise UserError(f"--out {out} exists: remove it, or name another folder")
    if not out.name.isidentifier():
        raise UserError(
            f"--out {out}: the folder is a Python package, so name it in letters, digits and _, like my_robot"
        )
    if out.name in sys.stdlib_module_names or importlib.util.find_spec(out.name) is not None:
        raise UserError(f"--out {out}: Python has a package {out.name!r}: choose another name")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise UserError(f"--name {name}: write it in letters, digits, - and _, like my-robot")
    if name in own():
        raise UserError(f"Gaitway has a robot named {name!r}: give this one another, as with --name my-{name}")


def write_package(folder: Path, robot: Robot, path: Path, notes: list[str]) -> None:
    """Write everything but the model; ``path`` is the robot's file, and ``notes`` become part of the docstring."""
    write_text(folder / "__init__.py", _facts(robot, path, notes))
    write_text(folder / "tasks.py", TASKS.format(title=robot.name))
    licenses = (file for place in path.absolute().parents[:4] for file in sorted(place.glob("LICEN[CS]E*")))
    if found := next((file for file in licenses if file.is_file() and file.stat().st_size < LICENSE_BYTES), None):
        write_text(folder / "LICENSE", found.read_text("utf-8", "replace"))
    try:
        take_picture(robot, folder / "standing.png")
    except NotDone as error:
        notes.append(f"no standing.png: {error}")


def _facts(robot: Robot, path: Path, notes: Sequence[str]) -> str:
    kinds = {type(each).__name__ for each in (*robot.actuators.values(), *robot.mirrors.values())}
    usual = {each.name for each in fields(robot) if getattr(robot, each.name) == each.default}
    named = [each.name for each in fields(robot) if each.name not in usual | {"mjcf"}]
    return FACTS.format(
        name=robot.name,
        file=_plain(path.name),
        notes="\n".join(textwrap.fill(f"- {_plain(note)}", WIDTH, subsequent_indent="  ") for note in notes),
        imports=", ".join(sorted(kinds)),
        fields="\n".join(f"    {name}={_python(getattr(robot, name))}," for name in named),
        model=robot.mjcf.name,
    )


def _python(value: object) -> str:
    """Code of a value, wrapped, with double quotes as formatters write it unless a name has one."""
    text = re.sub(r"armature=None,\s*", "", pprint.pformat(value, width=WIDTH - 8, compact=True, sort_dicts=False))
    lines = (text if '"' in text else text.replace("'", '"')).split("\n")
    if len(lines) == 1:
        return lines[0]
    inside = "\n".join([lines[0][1:], *(line.removeprefix(" ") for line in lines[1:])])[:-1]
    return f"{lines[0][0]}\n{textwrap.indent(inside, ' ' * 8)},\n    {lines[-1][-1]}"


def _plain(text: str) -> str:
    """Text that cannot end a docstring."""
    return " ".join(text.replace("\\", "/").replace('"', "'").split())
