"""Flights, and logs of other programs as flights, by what lies at a path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.patterns import by_pattern
from gaitway_files.reading import FileError
from gaitway_files.yaml_files import read_yaml
from gaitway_onboard.flight.reading import Flight, ForeignRecording, read_flight
from gaitway_onboard.interface import Array
from gaitway_tasks.robots import Robot

from .log import COMMAND, Log
from .rosbag import read_bag
from .tables import read_table

TABLES = (".npz", ".csv")


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """Facts that a log of another program does not hold."""

    robot: Robot | None = None
    gains: str | None = None
    """``KP,KD`` for all joints, or a YAML file with ``stiffness`` and ``damping``."""
    topics: tuple[str, ...] = ()
    """Topics of a rosbag2: joint states, joint targets, IMU."""


def is_bag(path: Path) -> bool:
    """True for the folder of a rosbag2."""
    return (path / "metadata.yaml").is_file()


def read_any(
    path: Path, options: LogOptions, out: Path | None = None, say: Callable[[str], None] = lambda text: None
) -> tuple[Flight, bool]:
    """The flight at ``path`` and False, or the log there as a flight, which is also written to ``out``, and True.

    ``say`` is told what was assumed of a log. Raises :class:`UserError`.
    """
    if not is_bag(path) and path.suffix.lower() not in (*TABLES, ".db3"):
        try:
            flight = read_flight(path)
        except ForeignRecording:
            pass
        else:
            if options.gains is not None or options.topics:
                raise UserError(f"{path} is a flight, which has its gains and topics: leave out --gains and --topics")
            return flight, False
    table = path.suffix.lower() in TABLES
    if table and options.topics:
        raise UserError(f"--topics are those of a rosbag2, and {path} is none: leave them out")
    log = read_table(path) if table else read_bag(path, options.topics)
    robot = options.robot
    if robot is not None:
        log = log.of_robot(robot.name, robot.joint_names)
    if options.gains is not None:
        log = log.with_gains(_gains(options.gains, log))
    flight = log.flight("" if robot is None else robot.name, out)
    for event in flight.events:
        say(f"{path}: {event.text}")
    return flight, True


def _gains(text: str, log: Log) -> dict[str, Array]:
    """Stiffness and damping (J,) by the option's text."""
    if text.count(",") == 1 and not text.endswith((".yaml", ".yml")):
        values: list[object] = list(text.split(","))
    else:
        data = read_yaml(text)
        if not isinstance(data, Mapping) or set(data) != set(COMMAND[1:]):
            raise FileError(
                text, f"expected the keys {' and '.join(COMMAND[1:])}, each a number, or patterns of joints"
            )
        values = [data[name] for name in COMMAND[1:]]
    return {name: _of_joints(value, log.joints, name) for name, value in zip(COMMAND[1:], values, strict=True)}


def _of_joints(value: object, joints: Sequence[str], name: str) -> Array:
    if isinstance(value, Mapping):
        found = by_pattern(joints, value)
        value = [found[joint] for joint in joints]
    try:
        numbers = np.broadcast_to(np.array(value, float), (len(joints),))
    except (TypeError, ValueError):
        numbers = np.full(1, np.nan)
    if not (np.isfinite(numbers) & (numbers >= 0.0)).all():
        raise UserError(f"--gains: {name} is {str(value)[:80]}; give numbers of at least 0, such as 25,0.5")
    return numbers
