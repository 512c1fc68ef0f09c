"""Commands to robots: every kind that a scenario can ask for.

A share of robots that fall needs independent robots, and a policy that is symmetric makes mirror images of a command
one robot. Commands are therefore drawn at random, anew in every repetition. Those that are not, the **corners** of the
command box, are a class of their own (:mod:`.corners`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from gaitway_onboard.rotation import yaw_of
from gaitway_sim2real.mujoco.robots import RobotBatch
from gaitway_sim2real.trial.commands import PERIOD, Commands, Told, held
from gaitway_sim2real.trial.scenario import Range, Scenario
from gaitway_sim2real.trial.stressors import Stressor

from .command_classes import AHEAD_SPEED, CLASSES, SLOWEST, draw_class, has_class
from .corners import STARTS, corner_commands
from .needs import AHEAD as STRAIGHT_AHEAD
from .needs import FULL, STRAIGHT, VELOCITY, ZERO

MIXED, AHEAD = "mixed", "ahead"
CLASS_ROBOTS = 0.6
"""Share of the robots of mixed commands that walk one of the command classes each, in turn."""
STANDING_ROBOTS = 0.05
"""Share of the robots of mixed commands that stand."""
SIDE = 7
"""Cells of the command grid along each axis."""
WALK_BEFORE_STOP = 3.0  # [s]
STEERING = 0.5
"""Yaw rate that a robot is told for each radian off its heading [1/s], as Isaac Lab's heading commands do."""
STRAIGHT_CLASSES = tuple(name for name, kind in CLASSES.items() if not any(kind.yaw))
"""Classes in which robots go straight: those of ``straight`` commands, in turn."""


def stand(ranges: np.ndarray) -> np.ndarray:
    """The command that is closest to standing still, (3,)."""
    return np.clip(np.zeros(3), *ranges.T)


def command_grid(ranges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """A command in each of 7 x 7 cells over (vx, vy) and over (vx, yaw rate), the corners, then draws; (n, 3).

    Each is drawn at random within its cell: the cells of a fixed grid are mirror images of each other, in which a
    symmetric policy would fall or stand together, and the same in every repetition.
    """
    rest = stand(ranges)
    cells = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij"), -1).reshape(-1, 2)
    planes = []
    for axis in (1, 2):
        plane = np.tile(rest, (SIDE * SIDE, 1))
        low, width = ranges[[0, axis], 0], np.ptp(ranges[[0, axis]], axis=1)
        plane[:, [0, axis]] = low + width * (cells + rng.uniform(size=cells.shape)) / SIDE
        planes.append(plane)
    fixed = np.vstack([*planes, np.repeat(corner_commands(ranges), STARTS, 0)])
    return np.vstack([fixed, uniform(ranges, max(0, n - len(fixed)), rng)])[:n]


def small_grid(ranges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Every fourth cell of :func:`command_grid`, each corner once, then draws; (n, 3)."""
    cells = command_grid(ranges, 2 * SIDE * SIDE, rng)[::4]
    fixed = np.vstack([cells, corner_commands(ranges)])
    return np.vstack([fixed, uniform(ranges, max(0, n - len(fixed)), rng)])[:n]


def walks_a_class(scenario: Scenario) -> np.ndarray:
    """Robots whose commands belong to a class, (N,) bool: their gait is measured."""
    first = round((1.0 - CLASS_ROBOTS) * scenario.envs) if scenario.commands == MIXED else 0
    return np.arange(scenario.envs) >= first


def mixed(ranges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """The corners, robots that stand, random draws, then the command classes in turn; (n, 3)."""
    rest = round((1.0 - CLASS_ROBOTS) * n)
    corners = corner_commands(ranges)[:rest]
    standing = np.tile(stand(ranges), (min(round(STANDING_ROBOTS * n), rest - len(corners)), 1))
    drawn = uniform(ranges, rest - len(corners) - len(standing), rng)
    names = [name for name in CLASSES if has_class(name, ranges)]
    return np.vstack([corners, standing, drawn, in_turn(names, ranges, n - rest, rng)])


def in_turn(names: list[str], ranges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Commands of ``n`` robots that take turns among command classes, (n, 3); random ones without any class."""
    command = uniform(ranges, n, rng)
    for k, name in enumerate(names):
        command[k :: len(names)] = draw_class(name, ranges, len(command[k :: len(names)]), rng)
    return command


def straight(ranges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Forward, slow and fast, backward and sideways, in turn; (n, 3)."""
    return in_turn([name for name in STRAIGHT_CLASSES if has_class(name, ranges)], ranges, n, rng)


def full_speed(ranges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """The corners, then draws of which one component is at an end of its range; (n, 3)."""
    corners = np.repeat(corner_commands(ranges), STARTS, 0)[:n]
    command = uniform(ranges, n - len(corners), rng)
    ends = [(axis, end) for axis, pair in enumerate(ranges) for end in pair if abs(end) >= SLOWEST]
    for row, chosen in zip(command, rng.integers(0, len(ends), len(command)), strict=True):
        axis, end = ends[chosen]
        row[axis] = end
    return np.vstack([corners, command])


def uniform(ranges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draws within the whole box, (n, 3)."""
    return rng.uniform(ranges[:, 0], ranges[:, 1], (n, 3))


def some_stand(ranges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draws, of which one robot in five stands; (n, 3)."""
    command = uniform(ranges, n, rng)
    command[: n // 5] = stand(ranges)
    return command


def all_stand(ranges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """(n, 3)"""
    return np.tile(stand(ranges), (n, 1))


def ahead(ranges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Straight ahead, (n, 3); :class:`Heading` keeps it."""
    return np.tile([AHEAD_SPEED, 0.0, 0.0], (n, 1))


def steered(command: np.ndarray, off: np.ndarray, turning: Range) -> np.ndarray:
    """Commands (N, 3) with the yaw rate that brings robots ``off`` their heading [rad], (N,), back to it.

    ``turning`` is the contract's range [rad/s].
    """
    back = -STEERING * (np.remainder(off + math.pi, 2 * math.pi) - math.pi)
    return np.column_stack([command[:, :2], np.clip(command[:, 2] + back, *turning)])


def _steps(scenario: Scenario, told: Told, rng: np.random.Generator) -> np.ndarray:
    """A new draw in each period; a quarter of the changes are full stops, a quarter full reversals."""
    ranges, n, steps, period = told.ranges, scenario.envs, told.steps(scenario.seconds), told.steps(PERIOD)
    count = math.ceil(steps / period)
    command = np.stack([uniform(ranges, n, rng) for _ in range(count)])
    for k in range(1, count):
        choice = rng.integers(0, 4, n)
        command[k, choice == 0] = stand(ranges)
        reverse = np.clip(-command[k - 1], ranges[:, 0], ranges[:, 1])
        command[k, choice == 1] = reverse[choice == 1]
    return np.repeat(command, period, axis=0)[:steps]


def _stops(scenario: Scenario, told: Told, rng: np.random.Generator) -> np.ndarray:
    """Full speed, then zero."""
    command = np.tile(stand(told.ranges), (told.steps(scenario.seconds), scenario.envs, 1))
    command[: told.steps(WALK_BEFORE_STOP)] = full_speed(told.ranges, scenario.envs, rng)
    return command


@dataclass(frozen=True)
class Heading(Stressor):
    """Steering: :func:`steered` keeps each robot on its initial heading."""

    def start(self, world: RobotBatch, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {}

    def told(self, command: np.ndarray, world: RobotBatch, kept: dict[str, np.ndarray]) -> np.ndarray:
        heading = yaw_of(world.base_quat())
        return steered(command, heading - kept.setdefault("first", heading), world.contract.command_ranges[2])


def _drawn(
    draw: Callable[[np.ndarray, int, np.random.Generator], np.ndarray],
    *needs: str,
    stressors: tuple[Stressor, ...] = (),
) -> Commands:
    """Commands that ``draw`` takes from ranges, a number of robots and random numbers; they are held."""
    return held(lambda told, n, rng: draw(told.ranges, n, rng), needs, stressors)


def _class(name: str) -> Commands:
    return _drawn(lambda ranges, n, rng: draw_class(name, ranges, n, rng), f"command: {CLASSES[name].title}")


KINDS: dict[str, Commands] = {
    "grid": _drawn(command_grid, VELOCITY),
    MIXED: _drawn(mixed),
    "standing": _drawn(all_stand, ZERO),
    "random": _drawn(some_stand),
    "straight": _drawn(straight, STRAIGHT),
    "small_grid": _drawn(small_grid, VELOCITY),
    AHEAD: _drawn(ahead, STRAIGHT_AHEAD, stressors=(Heading(),)),
    "steps": Commands(draw=_steps),
    "stops": Commands(draw=_stops, needs=(ZERO, FULL)),
    **{name: _class(name) for name in CLASSES},
}
"""Kinds of commands of scenarios: ``grid`` and ``small_grid`` (a quarter of it), ``mixed`` (corners, draws and all
classes), ``standing``, ``random`` (a fifth of the robots stand), ``steps`` (a new command every 4 s), ``straight``,
``stops`` (full speed, then zero), ``ahead`` (0.5 m/s, steered), and the command classes."""
