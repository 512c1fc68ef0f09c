"""Pages about robots, written from each robot's own data: ``python docs/tools/robot_pages.py NAME`` prints one."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tasks", ".")]

from gaitway_tasks.robots import ActuatorLaw, DCMotor, RobotDescription  # noqa: E402
from gaitway_tasks.robots.known import own  # noqa: E402

MARK = "<!-- a card for each robot -->"
"""Place of :func:`cards` in the gallery."""
PICTURES = "images/robots"
DEFAULT = "velocity-flat-anymal-c-blind"
"""The task of ``make walk``."""


def names() -> list[str]:
    """Names of Gaitway's robots."""
    return list(own())


def title(name: str) -> str:
    """Full name of a robot."""
    return own()[name].title


def cards() -> str:
    """Pictures of all robots that lead to their pages, for a page at the top of the site."""
    lines = ['<div class="grid cards" markdown>', ""]
    for name, described in own().items():
        robot = described.robot
        lines.append(
            f"-   [![{described.title} in its default pose]({PICTURES}/{name}.jpg)"
            f"{{ width=320 height=240 loading=lazy }}](robots/{name}.md)\n\n    "
            f"[{described.title}](robots/{name}.md): {robot.num_joints} joints, {len(robot.foot_names)} feet\n"
        )
    return "\n".join([*lines, "</div>"])


def page(name: str) -> str:
    """Markdown of one robot's page, which lies in a folder beside images/."""
    described = own()[name]
    module = sys.modules[f"gaitway_tasks.robots.{described.robot.mjcf.parent.name}"]
    return "\n\n".join(
        [
            f"# {described.title}",
            f"![{described.title} in its default pose, drawn by MuJoCo](../{PICTURES}/{name}.jpg)"
            "{ width=640 height=480 }",
            *_facts(described),
            *_training(described),
            *_actuators(described),
            *_joints(described),
            *_sources(described, inspect.getdoc(module) or ""),
        ]
    )


def _table(head: str, rows: list[str]) -> str:
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows])


def _facts(described: RobotDescription) -> Iterator[str]:
    robot = described.robot
    wire = "ROS 2" if robot.hardware is None else f"`{robot.hardware.name}`, ROS 2"
    yield _table(
        "| | |",
        [
            f"| name | `{robot.name}` |",
            f"| joints, feet | {robot.num_joints}, {len(robot.foot_names)} |",
            f"| height of the base at a reset | {robot.init_height:g} m |",
            f"| drives | {', '.join(sorted({_law(law) for law in robot.actuators.values()}))} |",
            f"| mirror images | {', '.join(robot.mirrors) or 'none'} |",
            f"| on its wire | {wire} |",
        ],
    )


def _training(described: RobotDescription) -> Iterator[str]:
    name = described.robot.name
    yield "## Train it"
    tasks = {task.format(robot=name): row for task, row in described.tasks.items()}
    yield _table(
        "| task | what is learnt | presets |",
        [
            f"| `{task}` | {row.summary.format(title=described.title)} | {', '.join(row.presets) or 'none'} |"
            for task, row in tasks.items()
        ],
    )
    chosen = next((task for task in tasks if task.endswith("-blind")), next(iter(tasks)))
    preset = " --preset cpu" if "cpu" in tasks[chosen].presets else ""
    yield "\n".join(
        [
            "```",
            f"gaitway train {chosen}{preset} --out runs/{name}",
            f"gaitway export runs/{name} --out runs/{name}/bundle",
            f"gaitway validate runs/{name}/bundle",
            f"gaitway play runs/{name}/bundle",
            "```",
        ]
    )
    if chosen == DEFAULT:
        yield "`make walk` does all of this in one command: [learning to walk](../learning_to_walk.md)."
    yield (
        "[Training](../train.md), [validation](../validate.md) and [configuration](../configuration.md) have the rest."
    )


def _law(law: ActuatorLaw) -> str:
    return "DC motor" if isinstance(law, DCMotor) else "PD"


def _actuators(described: RobotDescription) -> Iterator[str]:
    yield "## Drives"
    yield _table(
        "| group | law | stiffness [N m/rad] | damping [N m s/rad] | largest torque [N m] |",
        [
            f"| {group} | {_law(law)} | {law.stiffness:g} | {law.damping:g} | {law.effort_limit:g} |"
            for group, law in described.robot.actuators.items()
        ],
    )
    if any(isinstance(law, DCMotor) for law in described.robot.actuators.values()):
        reference = "[the reference](../api/gaitway_tasks.robots.md)"
        yield f"A DC motor has less torque the faster it turns: see `DCMotor` in {reference}."


def _joints(described: RobotDescription) -> Iterator[str]:
    robot = described.robot
    yield "## Joints"
    yield _table(
        "| joint | default [rad] | lowest [rad] | highest [rad] |",
        [
            f"| `{joint}` | {default:g} | {low:g} | {high:g} |"
            for joint, default, (low, high) in zip(
                robot.joint_names, robot.default_joint_pos, robot.joint_limits, strict=True
            )
        ],
    )


def _sources(described: RobotDescription, docstring: str) -> Iterator[str]:
    yield "## Sources and licence"
    yield docstring.replace("``", "`").partition("\n\n")[2] or docstring.replace("``", "`")
    licence = (described.robot.mjcf.parent / "LICENSE").read_text("utf-8")
    yield f"````text\n{licence.rstrip()}\n````\n"


if __name__ == "__main__":
    print(page(sys.argv[1]))
