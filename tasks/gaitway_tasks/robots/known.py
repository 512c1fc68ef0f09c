"""All robots by name: one folder each beside this file, and those of installed packages."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path

from gaitway_files.errors import UserError
from gaitway_files.trust import installed_entry_points, object_named

from .description import RobotDescription
from .robot import Robot

GROUP = "gaitway.robots"
"""Entry point group of robots: the robot's name, and its :class:`RobotDescription` as module:object."""


class RobotError(UserError):
    """A robot of another package that cannot be used, with the fix."""


@functools.cache
def own() -> dict[str, RobotDescription]:
    """Gaitway's own robots."""
    folders = [found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)]) if found.ispkg]
    found = [importlib.import_module(f"{__package__}.{folder}").DESCRIPTION for folder in folders]
    return {d.robot.name: d for d in sorted(found, key=lambda d: (d.order, d.robot.name))}


@functools.cache
def _installed() -> dict[str, EntryPoint]:
    found = {}
    for point in installed_entry_points(GROUP):
        if point.name in own():
            print(f"ignoring the robot {point.name!r} of {point.value}: Gaitway has one of that name", file=sys.stderr)
        else:
            found[point.name] = point
    return found


_named: dict[str, RobotDescription] = {}
"""Robots of modules that the user named, by their own names."""


def _outside(name: str) -> RobotDescription:
    """The robot given as ``module:object``; it is registered under its own name too."""
    found = object_named(name)
    if isinstance(found, Robot):
        found = RobotDescription(robot=found, title=found.name)
    if not isinstance(found, RobotDescription):
        raise RobotError(f"{name} is a {type(found).__name__}: a robot is a Robot or a RobotDescription")
    if found.robot.name in own():
        raise RobotError(f"{name} is a robot named {found.robot.name!r}, which Gaitway has: give it a name of its own")
    _named[found.robot.name] = found
    return found


class Descriptions(Mapping[str, RobotDescription]):
    """Every robot's :class:`RobotDescription` by the robot's name; a package is imported when its robot is looked up.

    ``module:object`` is a robot of a module that the user named; :class:`gaitway_files.trust.TrustError` for others.
    """

    def __getitem__(self, name: str) -> RobotDescription:
        if ":" in name:
            return _outside(name)
        for known in (_named, own()):
            if name in known:
                return known[name]
        return _load(_installed()[name])

    def __iter__(self) -> Iterator[str]:
        """Robots of broken packages are left out, with a line on the error stream."""
        yield from own()
        for name, point in _installed().items():
            try:
                _load(point)
            except RobotError as error:
                print(f"left out: {error}", file=sys.stderr)
            else:
                yield name
        yield from _named

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        if isinstance(name, str) and ":" in name:
            return _outside(name) is not None
        return name in own() or name in _installed() or name in _named


class Robots(Mapping[str, Robot]):
    """Every :class:`Robot` by its name."""

    def __getitem__(self, name: str) -> Robot:
        return DESCRIPTIONS[name].robot

    def __iter__(self) -> Iterator[str]:
        return iter(DESCRIPTIONS)

    def __len__(self) -> int:
        return len(DESCRIPTIONS)

    def __contains__(self, name: object) -> bool:
        return name in DESCRIPTIONS


DESCRIPTIONS = Descriptions()
ROBOTS = Robots()


@functools.cache
def _load(point: EntryPoint) -> RobotDescription:
    where = f"the entry point {point.name} = {point.value} of {GROUP}"
    try:
        found = point.load()
    except Exception as error:
        raise RobotError(f"{where} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(found, RobotDescription):
        raise RobotError(f"{where} is a {type(found).__name__}: it must be a RobotDescription")
    if found.robot.name != point.name:
        raise RobotError(f"{where} is a robot named {found.robot.name!r}: both names must be the same")
    return found
