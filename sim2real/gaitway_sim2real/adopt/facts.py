"""The facts of an adopted robot, written as a person would write them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

from gaitway_tasks.robots import Robot
from gaitway_tasks.robots.robot import ActuatorLaw

WIDTH = 116

HEAD = '''"""{title}, made by gaitway adopt from {file}.

{notes}
"""
'''
TASKS = """velocity_tasks("gaitway_tasks.velocity.legged:flat", blind=True, presets=("cpu", "sprint"))"""
PACKAGE = """
from pathlib import Path

from gaitway_tasks.robots import {imports}, Robot, RobotDescription, velocity_tasks

ROBOT = Robot(
    name={name!r},
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
    mjcf=Path(__file__).with_name({model!r}),
    mirrors={{{mirrors}}},
)

DESCRIPTION = RobotDescription(
    robot=ROBOT,
    title={title!r},
    tasks={tasks},
)
"""


def package(robot: Robot, path: Path, notes: Sequence[str]) -> str:
    """Text of the package's ``__init__.py``; ``notes`` become part of its docstring."""
    laws = sorted({type(law).__name__ for law in robot.actuators.values()})
    told = "\n".join(textwrap.fill(f"- {_plain(note)}", WIDTH, subsequent_indent="  ") for note in notes)
    mirrors = "".join(
        f"\n        {title!r}: Mirror(axis={each.axis!r}, pairs={dict(each.pairs)!r}, flip={each.flip!r}),"
        for title, each in robot.mirrors.items()
    )
    return HEAD.format(title=robot.name, file=_plain(path.name), notes=told) + _quoted(
        PACKAGE.format(
            title=robot.name,
            imports=", ".join([*laws, *["Mirror"] * bool(robot.mirrors)]),
            name=robot.name,
            joint_names=_rows(map(repr, robot.joint_names)),
            body_names=_rows(map(repr, robot.body_names)),
            foot_names=_rows(map(repr, robot.foot_names)),
            default_joint_pos=_rows(repr(value + 0.0) for value in robot.default_joint_pos),
            joint_limits=_rows(map(repr, robot.joint_limits)),
            soft=robot.soft_joint_pos_limit_factor,
            init_height=robot.init_height,
            foot_height=robot.foot_height,
            actuators="".join(f"\n        {name!r}: {_law(law)}," for name, law in robot.actuators.items()),
            model=robot.mjcf.name,
            tasks=TASKS,
            mirrors=f"{mirrors}\n    " if mirrors else "",
        )
    )


def _quoted(code: str) -> str:
    """Code with double quotes, as formatters write it, unless a name has one."""
    return code if '"' in code.replace(TASKS, "") else code.replace("'", '"')


def _rows(parts: Iterable[str]) -> str:
    """A tuple over as many lines as it needs."""
    lines, line = [], ""
    for part in parts:
        if line and len(line) + len(part) > WIDTH - 10:
            lines.append(line)
            line = ""
        line += f"{part}, "
    lines.append(line)
    inside = "\n".join(f"        {each.rstrip()}" for each in lines)
    return f"(\n{inside}\n    )"


def _law(law: ActuatorLaw) -> str:
    given = {each.name: getattr(law, each.name) for each in fields(law)}
    values = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
    return f"{type(law).__name__}({values})"


def _plain(text: str) -> str:
    """Text that cannot end a docstring."""
    return " ".join(text.replace("\\", "/").replace('"', "'").split())
