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


def _velocity_rough_anymal_c() -> Task:
    from .robots import ANYMAL_C
    from .velocity import velocity_rough

    return velocity_rough(ANYMAL_C)


FACTORIES: dict[str, Callable[[], Task]] = {
    "velocity-flat-anymal-c": _velocity_flat_anymal_c,
    "velocity-flat-anymal-c-blind": _velocity_flat_anymal_c_blind,
    "velocity-rough-anymal-c": _velocity_rough_anymal_c,
}

SUMMARIES = {
    "velocity-flat-anymal-c": "ANYmal C tracks velocity commands on flat ground; reads its base velocity",
    "velocity-flat-anymal-c-blind": "the same from what a robot measures: no base velocity, a short history",
    "velocity-rough-anymal-c": "ANYmal C over stairs, boxes and slopes, with a height scan; needs Isaac Lab",
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


ROUGH = frozenset({"velocity-rough-anymal-c"})
"""Tasks on ground that only Isaac Lab makes."""


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
