"""Table of domains, one row each; a domain is imported by name when one of its tasks is used."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError
from gaitway_tasks.registry import UnknownNameError

from ..backends.table import BACKENDS
from ..config.tree import Kinds, named
from ..errors import ConfigError

if TYPE_CHECKING:
    from .domain import Domain

MODELS = (".urdf", ".xml", ".mjcf", ".usd", ".usda", ".xacro")
"""Endings of robots' models."""


@dataclass(frozen=True)
class Row:
    """Entry of a domain: its class and the class of its tasks as ``module:Class``, and the worlds of these tasks."""

    domain: str
    task: str
    worlds: Collection[str]
    name: str
    """Name of one of its tasks in messages."""
    options: tuple[str, ...] = ()
    """Options of ``gaitway train`` that its tasks have and not all others, as the command line's parser names them."""


DOMAINS = (
    Row(
        "gaitway.domains.robots:Robots",
        "gaitway_tasks.spec:Task",
        BACKENDS,
        "robot's task",
        ("parameters", "against", "teacher"),
    ),
    Row("gaitway.domains.gyms:Gyms", "gaitway_gymnasium.tasks:GymTask", ("gymnasium",), "Gymnasium environment"),
    Row("gaitway.domains.games:Games", "gaitway_ale.tasks:AtariTask", ("ale",), "Atari game"),
    Row(
        "gaitway.domains.texts.domain:Texts",
        "gaitway_tasks.language.spec:LanguageTask",
        ("language",),
        "language task",
        ("model", "teacher", "rollout", "server", "lora", "reward_model"),
    ),
)
"""Domains, in the order in which they are asked for a name."""
TASKS = Kinds(*(row.task for row in DOMAINS))


@functools.cache
def _domain(path: str) -> Domain:
    found: Domain = named(path)()
    return found


def domains() -> Iterable[Domain]:
    return (_domain(row.domain) for row in DOMAINS)


def is_task(given: Any) -> bool:
    """True for a task itself, of any kind."""
    return any(row.task == f"{type(given).__module__}:{type(given).__name__}" for row in DOMAINS)


def _row_of(task: Any) -> Row:
    path = f"{type(task).__module__}:{type(task).__name__}"
    return next(row for row in DOMAINS if row.task == path)


def domain_of(task: Any) -> Domain:
    """The domain of a task."""
    return _domain(_row_of(task).domain)


def worlds_of(task: Any) -> tuple[str, ...]:
    """Worlds in which a task can run, the default first."""
    return tuple(_row_of(task).worlds)


def domain_in(world: str) -> Domain:
    """The domain whose tasks happen in ``world``."""
    for row in DOMAINS:
        if world in row.worlds:
            return _domain(row.domain)
    raise UnknownNameError("world", world, [world for row in DOMAINS for world in row.worlds])


def find_task(name: Any, preset: str | None = None) -> Any:
    """A robot's task, a language task or file, an Atari game, or a Gymnasium environment by name or as ``gym:<id>``.

    A task itself is returned as it is; presets are of names.
    """
    if not isinstance(name, str):
        if not is_task(name):
            raise UserError(f"task {name!r}: give the name of one, or a Task")
        if preset is not None:
            raise UserError(
                f"preset {preset!r}: a {type(name).__name__} that is given as an object has its preset already; leave "
                f'preset out, or make the task with it: gaitway_tasks.registry.get_task(NAME, "{preset}")'
            )
        return name
    for domain in domains():
        if (task := domain.find(name, preset)) is not None:
            if preset is not None and not domain.has_presets:
                raise UnknownNameError(f"preset of {name}", preset, ())
            return task
    if Path(name).suffix.lower() in MODELS:
        raise ConfigError(
            f"{name} is a robot's model, and a task is asked for: how a model becomes a robot with a task stands in "
            "docs/your_robot.md; gaitway convert turns a URDF into the MJCF that it needs"
        )
    raise UnknownNameError("task", name, [known for domain in domains() for known in domain.names()])


def check_options(task: Any, options: Mapping[str, Any]) -> None:
    """Raise :class:`ConfigError` for options of the command line that tasks of another kind have."""
    own = _row_of(task).options
    foreign: dict[str, list[str]] = {}
    for name in (name for name in options if name not in own):
        if kinds := [row.name for row in DOMAINS if name in row.options]:
            foreign.setdefault(" or ".join(kinds), []).append(f"--{name.replace('_', '-')}")
    for of, given in foreign.items():
        raise ConfigError(f"{', '.join(given)}: {task.name} is no {of}; leave it out")
