"""Package of an adopted robot: its facts as a person would write them, its tasks and its license."""

from __future__ import annotations

import importlib.util
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

from gaitway_files.errors import NotDone, UserError
from gaitway_files.writing import write_text
from gaitway_tasks.robots import Robot
from gaitway_tasks.robots.known import own
from gaitway_tasks.robots.robot import ActuatorLaw

from .standing import take_picture

WIDTH = 116
LICENSE_BYTES = 1_000_000

TASKS = '''"""Tasks of {title}: velocity commands on flat ground."""

from gaitway_tasks.velocity import blind, legged

from . import ROBOT

WALK = legged.flat(ROBOT)
BLIND = blind(WALK)
"""The same task from what a robot measures."""
'''
ROWS = """velocity_tasks("gaitway_tasks.velocity.legged:flat", blind=True, presets=("cpu", "sprint"))"""
FACTS = '''"""{title}, made by gaitway adopt from {file}.

{notes}
"""

from pathlib import Path

from gaitway_tasks.robots import {imports}, Robot, RobotDescription, velocity_tasks

ROBOT = Robot(
    name={name},
    joint_names={joint_names},
    body_names={body_names},
    foot_names={foot_names},
    default_joint_pos={default_joint_pos},
    joint_limits={joint_limits},
    soft_joint_pos_limit_factor={soft:g},
    init_height={init_height!r},
    foot_height={foot_height!r},
    actuators={{{actuators}
    }},
    mjcf=Path(__file__).with_name({model}),
    mirrors={{{mirrors}}},
)

DESCRIPTION = RobotDescription(
    robot=ROBOT,
    title={name},
    tasks={tasks},
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
    laws = sorted({type(law).__name__ for law in robot.actuators.values()})
    told = (textwrap.fill(f"- {_plain(note)}", WIDTH, subsequent_indent="  ") for note in notes)
    mirrors = "".join(
        f"\n        {_text(title)}: Mirror(axis={_text(each.axis)}, pairs={_text(dict(each.pairs))}, "
        f"flip={_text(each.flip)}),"
        for title, each in robot.mirrors.items()
    )
    return FACTS.format(
        title=robot.name,
        file=_plain(path.name),
        notes="\n".join(told),
        imports=", ".join([*laws, *["Mirror"] * bool(robot.mirrors)]),
        name=_text(robot.name),
        joint_names=_rows(robot.joint_names),
        body_names=_rows(robot.body_names),
        foot_names=_rows(robot.foot_names),
        default_joint_pos=_rows(value + 0.0 for value in robot.default_joint_pos),
        joint_limits=_rows(robot.joint_limits),
        soft=robot.soft_joint_pos_limit_factor,
        init_height=robot.init_height,
        foot_height=robot.foot_height,
        actuators="".join(f"\n        {_text(name)}: {_law(law)}," for name, law in robot.actuators.items()),
        model=_text(robot.mjcf.name),
        mirrors=f"{mirrors}\n    " if mirrors else "",
        tasks=ROWS,
    )


def _text(value: object) -> str:
    """A value as Python, with double quotes, as formatters write it, unless a name has one."""
    return repr(value) if '"' in repr(value) else repr(value).replace("'", '"')


def _rows(values: Iterable[object]) -> str:
    """A tuple over as many lines as it needs."""
    lines = [""]
    for value in values:
        part = f"{_text(value)}, "
        if lines[-1] and len(lines[-1]) + len(part) > WIDTH - 10:
            lines.append("")
        lines[-1] += part
    inside = "\n".join(f"        {line.rstrip()}" for line in lines)
    return f"(\n{inside}\n    )"


def _law(law: ActuatorLaw) -> str:
    given = {each.name: getattr(law, each.name) for each in fields(law)}
    values = ", ".join(f"{name}={_text(value)}" for name, value in given.items() if value is not None)
    return f"{type(law).__name__}({values})"


def _plain(text: str) -> str:
    """Text that cannot end a docstring."""
    return " ".join(text.replace("\\", "/").replace('"', "'").split())
