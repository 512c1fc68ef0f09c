"""Tasks and presets by name. Listing names imports nothing heavy; building a task imports its terms."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .spec import Task


class UnknownNameError(ValueError):
    """A name that nothing is registered under; the message suggests the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        names = list(known)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        super().__init__(f"unknown {kind} {name!r}: {hint}known: {', '.join(names) or 'none'}")


def _velocity_flat_anymal_c() -> Task:
    from .robots import ANYMAL_C
    from .velocity import velocity_flat

    return velocity_flat(ANYMAL_C)


def _velocity_flat_anymal_c_blind() -> Task:
    from .velocity import blind

    return blind(_velocity_flat_anymal_c())


FACTORIES: dict[str, Callable[[], Task]] = {
    "velocity-flat-anymal-c": _velocity_flat_anymal_c,
    "velocity-flat-anymal-c-blind": _velocity_flat_anymal_c_blind,
}

SUMMARIES = {
    "velocity-flat-anymal-c": "ANYmal C tracks velocity commands on flat ground; reads its base velocity",
    "velocity-flat-anymal-c-blind": "the same from what a robot measures: no base velocity, a short history",
}


def _cpu(task: Task) -> Task:
    from .velocity import cpu

    return cpu(task)


def _sprint(task: Task) -> Task:
    from .velocity import sprint

    return sprint(task)


PRESETS: dict[str, dict[str, Callable[[Task], Task]]] = {
    "velocity-flat-anymal-c": {"cpu": _cpu, "sprint": _sprint},
    "velocity-flat-anymal-c-blind": {"cpu": _cpu, "sprint": _sprint},
}


def task_names() -> list[str]:
    return list(FACTORIES)


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
