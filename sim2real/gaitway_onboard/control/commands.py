"""Commands: a constant, a script of (time, command) pairs, and what a policy is told of any source's."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence

from gaitway_files.errors import UserError

from ..bundle.contract import DEFAULT_ACCELERATION, Contract

Command = tuple[float, ...]
"""Numbers of the contract's command, (D,); those of a velocity are vx, vy [m/s], yaw rate [rad/s], base frame."""
CommandSource = Callable[[float], Command]
"""Command at a time since the policy took over [s]."""
Script = Sequence[tuple[float, Command]]
"""Commands and the times [s] they start at; the first holds from the beginning."""

STILL = (0.0, 0.0, 0.0)
"""Velocity of a robot that stands."""
HELP = "write its numbers, as 'vx,vy,yaw', or 'time:vx,vy,yaw;time:vx,vy,yaw;...' with rising times"
AXES = ("vx", "vy", "yaw rate")
"""Numbers of a velocity, for messages."""


class CommandError(UserError):
    """A command or script that cannot be followed."""


def parse_script(text: str) -> Script:
    """``"0.5,0,0.2"`` or ``"0:0,0,0;2:0.5,0,0"`` as a script."""
    script = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        time, colon, numbers = part.rpartition(":")
        try:
            values = [float(number) for number in numbers.split(",")]
            start = float(time) if colon else 0.0
        except ValueError:
            raise CommandError(f"command {part!r}: {HELP}") from None
        if not all(map(math.isfinite, [start, *values])):
            raise CommandError(f"command {part!r}: {HELP}")
        script.append((start, tuple(values)))
    if not script or any(b[0] <= a[0] for a, b in itertools.pairwise(script)):
        raise CommandError(f"command {text!r}: {HELP}")
    return script


def tour_of(contract: Contract, seconds: float) -> Script:
    """Commands that the policy of ``contract`` was trained for, one after the other over ``seconds``."""
    if contract.follows_velocity:
        return tour(contract.command_ranges, seconds)
    return _spread(_settings(contract), seconds)


def _spread(legs: Sequence[Command], seconds: float) -> Script:
    return [(seconds * number / len(legs), leg) for number, leg in enumerate(legs)]


def tour(ranges: Sequence[tuple[float, float]], seconds: float) -> Script:
    """Stand, walk each way the policy was trained for, and stand again, spread over ``seconds``.

    ``ranges`` are lowest and highest vx, vy [m/s] and yaw rate [rad/s].
    """
    (back, front), (right, left), (clockwise, counter) = ranges
    legs = [
        (0.0, 0.0, 0.0),
        (0.6 * front, 0.0, 0.0),
        (0.6 * front, 0.0, 0.6 * counter),
        (0.6 * back, 0.0, 0.0),
        (0.0, 0.6 * left, 0.0),
        (0.0, 0.6 * right, 0.0),
        (0.0, 0.0, 0.6 * clockwise),
        (front, 0.0, 0.0),
        (0.0, 0.0, 0.0),
    ]
    return _spread(legs, seconds)


def _settings(contract: Contract) -> list[Command]:
    """Rest, each number at the ends of its range that are not rest, and rest again."""
    still = contract.still
    ends = [
        (*still[:number], end, *still[number + 1 :])
        for number, limits in enumerate(contract.command_ranges)
        for end in dict.fromkeys(limits)
        if end != still[number]
    ]
    return [still, *ends, still]


def scripted(script: Script) -> CommandSource:
    """The command of ``script`` that holds at a given time."""
    times = [time for time, _ in script]
    return lambda time: script[max(0, bisect.bisect_right(times, time) - 1)][1]


def follow(wanted: Command, before: Command, contract: Contract) -> Command:
    """Command to the policy a period after ``before``: finite, in the trained range, and no faster than allowed.

    A graph whose contract has ``command_acceleration`` limits the change itself, and is told at once. What is not
    finite counts as :attr:`.Contract.still`.
    """
    told, still = [], contract.still
    for axis, (low, high) in enumerate(contract.command_ranges):  # arrays of three cost five times as much
        now = float(wanted[axis])
        now = min(max(now if math.isfinite(now) else still[axis], low), high)
        if contract.command_acceleration is None:
            most = DEFAULT_ACCELERATION[axis] * contract.control_dt
            now = before[axis] + min(max(now - before[axis], -most), most)
        told.append(now)
    return tuple(told)


def check_range(script: Script, contract: Contract) -> None:
    """Refuse commands that the policy was not trained on."""
    names = AXES if contract.follows_velocity else contract.command_names
    for _, command in script:
        if len(command) != len(names):
            numbers = ",".join(map(str, command))
            raise CommandError(f"command {numbers!r}: {contract.task} follows {len(names)}, {', '.join(names)}")
        for name, value, (low, high) in zip(names, command, contract.command_ranges, strict=True):
            if not low <= value <= high:
                raise CommandError(f"command {name} = {value:g}: the policy was trained on [{low:g}, {high:g}]")
