"""Tasks and presets by name. Listing names imports nothing heavy; building a task imports its terms."""

from __future__ import annotations

import difflib
import functools
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .robots import DESCRIPTIONS, Learner, Robot, RobotDescription, RobotError
from .robots.description import FLAT, ROUGH

if TYPE_CHECKING:
    from .spec import Task


class UnknownNameError(ValueError):
    """A name that nothing is registered under; the message suggests the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        names = list(known)
        likeness = {known: difflib.SequenceMatcher(None, known, name).ratio() for known in names}
        nearest = max(names, key=lambda known: likeness[known], default="")  # the first of those that are as near
        hint = f"did you mean {nearest!r}? " if likeness.get(nearest, 0.0) >= 0.4 else ""
        super().__init__(f"unknown {kind} {name!r}: {hint}known: {', '.join(names) or 'none'}")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A task in the list: how it is made, a line about it, and its presets."""

    make: Callable[[], Task]
    summary: str
    presets: tuple[str, ...] = ()
    rough: bool = False
    """On ground that only Isaac Lab makes."""


def _flat(robot: Robot) -> Task:
    from .velocity import velocity_flat

    return velocity_flat(robot)


def _blind(robot: Robot) -> Task:
    from .velocity import blind

    return blind(_flat(robot))


def _rough(robot: Robot) -> Task:
    from .velocity import velocity_rough

    return velocity_rough(robot)


def _tasks_of(described: RobotDescription) -> dict[str, Entry]:
    robot, title, found = described.robot, described.title, {}
    if described.flat is not None:
        found[f"velocity-flat-{robot.name}"] = Entry(
            make=functools.partial(_flat, robot),
            summary=f"{title} tracks velocity commands on flat ground; reads its base velocity{described.note}",
            presets=described.presets,
        )
        if described.blind:
            found[f"velocity-flat-{robot.name}-blind"] = Entry(
                make=functools.partial(_blind, robot),
                summary="the same from what a robot measures: no base velocity, a short history",
                presets=described.presets,
            )
    if described.rough is not None:
        found[f"velocity-rough-{robot.name}"] = Entry(
            make=functools.partial(_rough, robot),
            summary=f"{title} over stairs, boxes and slopes, with a height scan; needs Isaac Lab",
            rough=True,
        )
    return found


@functools.cache
def entries() -> dict[str, Entry]:
    """The tasks of all robots, by name. A robot of a broken package is left out, with a line on the error stream."""
    found: dict[str, Entry] = {}
    for name in DESCRIPTIONS:
        try:
            found |= _tasks_of(DESCRIPTIONS[name])
        except RobotError as error:
            print(error, file=sys.stderr)
    return found


def task_names(*, rough: bool = True) -> list[str]:
    """Names of all tasks; with ``rough=False`` only of those that every world has the ground for."""
    return [name for name, entry in entries().items() if rough or not entry.rough]


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
    from . import velocity

    change: Callable[[Task], Task] = getattr(velocity, preset)
    return change(entry.make())


def learner_of(task: Task) -> Learner:
    """How Isaac Lab trains the task's robot on its ground; ANYmal's settings for a robot that has none of its own."""
    described = DESCRIPTIONS.get(task.robot.name)
    flat, rough = (FLAT, ROUGH) if described is None else (described.flat_learner, described.rough_learner)
    return rough if task.terrain.kind == "generator" else flat


def _entry(name: str) -> Entry:
    if name not in entries():
        raise UnknownNameError("task", name, entries())
    return entries()[name]
