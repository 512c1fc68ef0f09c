"""Tasks and presets by name. Listing names imports nothing heavy; building a task imports its terms."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gaitway_files.errors import UserError
from gaitway_files.trust import object_named

from .robots import DESCRIPTIONS, Learner, Robot, RobotDescription
from .robots.description import FLAT, ROUGH, VELOCITY_PRESETS, Preset
from .robots.known import own

if TYPE_CHECKING:
    from .spec import Task


class UnknownNameError(UserError):
    """A name that is not registered; the message suggests the nearest one, and lists three if there are many."""

    MANY = 15

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        names = list(known)
        likeness = {known: difflib.SequenceMatcher(None, known, name).ratio() for known in names}
        nearest = sorted(names, key=lambda known: -likeness[known])  # of equally near names the first
        hint = f"did you mean {nearest[0]!r}? " if nearest and likeness[nearest[0]] >= 0.4 else ""
        shown = ", ".join(names) or "none"
        if len(names) > self.MANY:
            shown = f"{', '.join(nearest[:3])} and {len(names) - 3} more"
            shown += f": 'gaitway list {kind}s' shows them" if kind in ("task", "agent") else ""
        super().__init__(f"unknown {kind} {name!r}: {hint}known: {shown}")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A task in the list: its factory, a one-line summary, and its presets."""

    make: Callable[[], Task]
    summary: str
    presets: Mapping[str, str] = field(default_factory=dict)

    def preset(self, name: str) -> Preset:
        """One of its presets."""
        module, _, attribute = self.presets[name].partition(":")
        found = getattr(importlib.import_module(module), attribute)
        assert isinstance(found, Preset), f"{self.presets[name]} is no Preset"
        return found


def _tasks_of(described: RobotDescription) -> dict[str, Entry]:
    robot = described.robot
    return {
        name.format(robot=robot.name): Entry(
            make=functools.partial(row, robot),
            summary=row.summary.format(title=described.title),
            presets=row.presets,
        )
        for name, row in described.tasks.items()
    }


@functools.cache
def entries(*, installed: bool = True) -> dict[str, Entry]:
    """The tasks of all robots, by name; without ``installed`` those of Gaitway's own robots only."""
    found: dict[str, Entry] = {}
    for described in (DESCRIPTIONS if installed else own()).values():
        found |= _tasks_of(described)
    return found


def task_names(*, installed: bool = True) -> list[str]:
    """Names of all tasks."""
    return list(entries(installed=installed))


def find_task(name: str, preset: str | None = None) -> Task | None:
    """As :func:`get_task`, but None for a name that is not registered, and for a language task of any module."""
    if is_outside(name) and type(object_named(name)).__module__.startswith("gaitway_tasks.language."):
        return None
    return get_task(name, preset) if name in entries() or is_outside(name) else None


def presets(name: str) -> list[str]:
    """Names of the presets of a task."""
    return list(_entry(name).presets)


def get_task(name: str, preset: str | None = None) -> Task:
    """Build the task ``name``, changed by ``preset`` if one is given."""
    entry = _entry(name)
    if preset is None:
        return entry.make()
    if preset not in entry.presets:
        raise UnknownNameError(f"preset of {name}", preset, entry.presets)
    return entry.preset(preset).change(entry.make())


def preset_of(task: Task, preset: str | None) -> Preset | None:
    """The preset that made ``task``, by its name; None without one."""
    return None if preset is None else _entry(called(task.name)).preset(preset)


def learner_of(task: Task) -> Learner:
    """Isaac Lab's learner settings for the task's robot and ground; ANYmal's for a robot without its own."""
    described = DESCRIPTIONS.get(task.robot.name)
    flat, rough = (FLAT, ROUGH) if described is None else (described.flat_learner, described.rough_learner)
    return rough if not task.ground.flat else flat


def is_outside(name: str) -> bool:
    """True if ``name`` is a ``module:object``, a task of another package."""
    return OUTSIDE.fullmatch(name) is not None


OUTSIDE = re.compile(r"(?!gym:|text:|verifiers:)[A-Za-z_][\w.]*:[A-Za-z_]\w*")


_called: dict[str, str] = {}


def called(task: str) -> str:
    """The name by which the user gave the task ``task``: ``module:object``, a file, or its own name."""
    return _called.get(task, task)


def call(task: str, name: str) -> None:
    """Note that the user called the task ``task`` by ``name``, a file's, for example."""
    _called[task] = name


def _outside(name: str) -> Entry:
    """The task given as ``module:object``, which is a :class:`Task` or a function that returns one."""
    from .mdp.commands import UniformVelocityCommand
    from .spec import Task

    found = object_named(name)
    if inspect.isfunction(found) and not inspect.signature(found).parameters:
        found = found()
    if not isinstance(found, Task):
        kind = "function with parameters" if inspect.isfunction(found) else type(found).__name__
        raise UserError(
            f"{name} is a {kind}: a task is a gaitway_tasks.spec.Task, or a function without "
            "parameters that returns one"
        )
    if found.name in entries(installed=False):
        raise UserError(f"{name} is a task named {found.name!r}, which Gaitway has: give it a name of its own")
    ours = own().get(found.robot.name)
    if ours is not None and _joints(ours.robot) != _joints(found.robot):
        raise UserError(
            f"{name}: its robot is named {found.robot.name!r} and has other joints than Gaitway's: give it a name of "
            "its own"
        )
    task = found
    _called[task.name], velocity = name, task.commands.get("base_velocity")
    tracks = isinstance(velocity, UniformVelocityCommand) and task.ground.flat
    presets = {each: VELOCITY_PRESETS[each] for each in ("cpu", "sprint")} if tracks else {}
    return Entry(make=lambda: task, summary=name, presets=presets)


def _joints(robot: Robot) -> dict[str, tuple[float, float]]:
    return dict(zip(robot.joint_names, robot.joint_limits, strict=True))


def _entry(name: str) -> Entry:
    if is_outside(name):
        return _outside(name)
    if name not in entries():
        raise UnknownNameError("task", name, entries())
    return entries()[name]
