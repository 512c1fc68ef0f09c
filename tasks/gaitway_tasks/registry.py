"""Tasks and presets by name. Listing names imports nothing heavy; building a task imports its terms."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

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


QUADRUPEDS = {
    "anymal-c": "ANYmal C",
    "anymal-b": "ANYmal B",
    "anymal-d": "ANYmal D",
    "a1": "Unitree A1",
    "go1": "Unitree Go1",
    "go2": "Unitree Go2",
}
HUMANOIDS = {"h1": "Unitree H1", "g1": "Unitree G1 with 37 joints"}


def _flat(robot: str) -> Task:
    from .robots import ROBOTS
    from .velocity import velocity_flat

    return velocity_flat(ROBOTS[robot])


def _blind(robot: str) -> Task:
    from .velocity import blind

    return blind(_flat(robot))


def _rough(robot: str) -> Task:
    from .robots import ROBOTS
    from .velocity import velocity_rough

    return velocity_rough(ROBOTS[robot])


def _cpu(task: Task) -> Task:
    from .velocity import cpu

    return cpu(task)


def _sprint(task: Task) -> Task:
    from .velocity import sprint

    return sprint(task)


FACTORIES: dict[str, Callable[[], Task]] = {}
SUMMARIES: dict[str, str] = {}
PRESETS: dict[str, dict[str, Callable[[Task], Task]]] = {}
ROUGH: set[str] = set()
"""Tasks on ground that only Isaac Lab makes."""

for _robot, _title in {**QUADRUPEDS, **HUMANOIDS}.items():
    _name = f"velocity-flat-{_robot}"
    FACTORIES[_name] = functools.partial(_flat, _robot)
    SUMMARIES[_name] = f"{_title} tracks velocity commands on flat ground; reads its base velocity"
    if _robot in QUADRUPEDS:
        FACTORIES[f"{_name}-blind"] = functools.partial(_blind, _robot)
        SUMMARIES[f"{_name}-blind"] = "the same from what a robot measures: no base velocity, a short history"
        PRESETS[_name] = PRESETS[f"{_name}-blind"] = {"cpu": _cpu, "sprint": _sprint}
    _name = f"velocity-rough-{_robot}"
    FACTORIES[_name] = functools.partial(_rough, _robot)
    SUMMARIES[_name] = f"{_title} over stairs, boxes and slopes, with a height scan; needs Isaac Lab"
    ROUGH.add(_name)


def task_names(*, rough: bool = True) -> list[str]:
    """Names of all tasks; with ``rough=False`` only of those that every world has the ground for."""
    return [name for name in FACTORIES if rough or name not in ROUGH]


def presets(name: str) -> list[str]:
    """Names of the presets of a task."""
    if name not in FACTORIES:
        raise UnknownNameError("task", name, FACTORIES)
    return list(PRESETS.get(name, {}))


def get_task(name: str, preset: str | None = None) -> Task:
    """Build the task ``name``, changed by ``preset`` if one is given."""
    if name not in FACTORIES:
        raise UnknownNameError("task", name, FACTORIES)
    if preset is not None and preset not in PRESETS.get(name, {}):
        raise UnknownNameError(f"preset of {name}", preset, presets(name))
    task = FACTORIES[name]()
    return task if preset is None else PRESETS[name][preset](task)
