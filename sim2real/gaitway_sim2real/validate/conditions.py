"""What each robot of a scenario meets: every random draw, by seed and name of the scenario."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from .command_classes import CLASSES, draw_class, has_class
from .scenario import MIXED, Range, Scenario

CLASS_ROBOTS = 0.6
"""Share of the robots of mixed commands that walk one of the command classes each, in turn."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What each of N robots meets over T control steps: every random draw of a scenario but the sensor noise."""

    command: np.ndarray  # (T, N, 3) vx, vy [m/s], yaw rate [rad/s]
    push: np.ndarray  # (T, N, 2) velocity step before control step t, world frame [m/s]; mostly zero
    friction: np.ndarray  # (N,)
    payload: np.ndarray  # (N,) [kg]
    strength: np.ndarray  # (N,)
    delay: np.ndarray  # (N,) [s]
    yaw: np.ndarray  # (N,) initial heading [rad]
    joint_offset: np.ndarray  # (N, J) initial joint positions minus the default pose [rad]
    velocity: np.ndarray  # (N, 2) initial horizontal velocity [m/s]
    noise_scale: float  # factor on NOISE
    noise_seed: tuple[int, ...]
    links: float = 0.0  # largest relative change of a link's mass and of its inertia
    links_seed: tuple[int, ...] = ()

    @classmethod
    def side_by_side(cls, parts: Sequence[Conditions]) -> Conditions:
        """Conditions of equal length, without noise and altered links, as those of one batch of robots."""
        assert not any(part.noise_scale or part.links for part in parts)
        names = [field.name for field in fields(cls) if isinstance(getattr(parts[0], field.name), np.ndarray)]
        joined: dict[str, Any] = {
            n: np.concatenate([getattr(p, n) for p in parts], int(n in ("command", "push"))) for n in names
        }
        return replace(parts[0], **joined)


def draw(scenario: Scenario, ranges: Sequence[Range], joints: int, control_dt: float, seed: int) -> Conditions:
    """Draw a scenario's conditions. The name enters the seed, so that scenarios do not depend on each other,
    unless they share their ``draws``."""
    entropy = (seed, zlib.crc32((scenario.draws or scenario.name).encode()))
    rng = np.random.default_rng(entropy)
    n, steps = scenario.envs, round(scenario.seconds / control_dt)

    def uniform(limits: Range) -> np.ndarray:
        return rng.uniform(*limits, size=n)

    period = max(1, round(4.0 / control_dt))
    return Conditions(
        command=_commands(scenario, steps, period, np.array(ranges), rng),
        push=_pushes(scenario.push, n, steps, period, rng),
        friction=uniform(scenario.friction),
        payload=uniform(scenario.payload),
        strength=uniform(scenario.strength),
        delay=uniform(scenario.delay),
        yaw=rng.uniform(-math.pi, math.pi, n),
        joint_offset=rng.uniform(-0.05, 0.05, (n, joints)),
        velocity=rng.uniform(-0.1, 0.1, (n, 2)),
        noise_scale=scenario.noise,
        noise_seed=(*entropy, 1),
        links=scenario.links,
        links_seed=(*entropy, 2),
    )


def command_grid(ranges: np.ndarray, n: int, rng: np.random.Generator, *, side: int = 7) -> np.ndarray:
    """``side`` x ``side`` over (vx, vy) and (vx, yaw), the corners, then random draws; (n, 3), cut to ``n``."""
    vx, vy, yaw = (np.linspace(low, high, side) for low, high in ranges)
    zero = np.clip(0.0, *ranges.T)
    plane = np.array([(x, y, zero[2]) for x in vx for y in vy])
    turning = np.array([(x, zero[1], z) for x in vx for z in yaw])
    corners = np.array([(x, y, z) for x in ranges[0] for y in ranges[1] for z in ranges[2]])
    fixed = np.vstack([plane, turning, corners])
    return np.vstack([fixed, _random(ranges, max(0, n - len(fixed)), rng)])[:n]


def small_grid(ranges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Every third command of the two planes of :func:`command_grid`, then its corners and random draws; (n, 3)."""
    planes = 2 * 7 * 7
    grid = command_grid(ranges, planes + n, rng)
    return np.vstack([grid[:planes:3], grid[planes:]])[:n]


def walks_a_class(scenario: Scenario) -> np.ndarray:
    """Robots whose commands belong to a class, (N,) bool: their gait is measured."""
    first = round((1.0 - CLASS_ROBOTS) * scenario.envs) if scenario.commands == MIXED else 0
    return np.arange(scenario.envs) >= first


def _mixed(scenario: Scenario, ranges: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A grid of 3 x 3 twice with its corners and robots that stand, then the command classes in turn; (N, 3)."""
    classes = [name for name in CLASSES if has_class(name, ranges)]
    walking = int(walks_a_class(scenario).sum())
    rest = scenario.envs - walking
    grid = command_grid(ranges, min(rest, 26), rng, side=3)
    standing = np.tile(np.clip(0.0, *ranges.T), (rest - len(grid), 1))
    drawn = [draw_class(name, ranges, walking, rng) for name in classes] or [_random(ranges, walking, rng)]
    turn = np.arange(walking) % len(drawn)
    return np.vstack([grid, standing, np.stack(drawn)[turn, np.arange(walking)]])


def _random(ranges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(ranges[:, 0], ranges[:, 1], (n, 3))


def _commands(scenario: Scenario, steps: int, period: int, ranges: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    kind, n = scenario.commands, scenario.envs
    stand = np.clip(np.zeros(3), *ranges.T)
    if kind == "grid":
        return np.broadcast_to(command_grid(ranges, n, rng), (steps, n, 3))
    if kind == "small_grid":
        return np.broadcast_to(small_grid(ranges, n, rng), (steps, n, 3))
    if kind == MIXED:
        return np.broadcast_to(_mixed(scenario, ranges, rng), (steps, n, 3))
    if kind in CLASSES:
        return np.broadcast_to(draw_class(kind, ranges, n, rng), (steps, n, 3))
    if kind == "standing":
        return np.broadcast_to(stand, (steps, n, 3))
    if kind == "random":
        command = _random(ranges, n, rng)
        command[: n // 5] = stand
        return np.broadcast_to(command, (steps, n, 3))
    if kind == "steps":
        count = math.ceil(steps / period)
        command = np.stack([_random(ranges, n, rng) for _ in range(count)])
        for k in range(1, count):  # a quarter of the changes are full stops, a quarter full reversals
            choice = rng.integers(0, 4, n)
            command[k, choice == 0] = stand
            reverse = np.clip(-command[k - 1], ranges[:, 0], ranges[:, 1])
            command[k, choice == 1] = reverse[choice == 1]
        return np.repeat(command, period, axis=0)[:steps]
    choices = ", ".join(("grid", "small_grid", MIXED, "standing", "random", "steps", *CLASSES))
    raise ValueError(f"commands {kind!r}: use one of {choices}")


def _pushes(speed: float, n: int, steps: int, period: int, rng: np.random.Generator) -> np.ndarray:
    """One push per whole ``period``, 40 to 60 % into it, so that each has time to show its end."""
    push = np.zeros((steps, n, 2))
    if speed:
        for start in range(0, steps - period + 1, period):
            when = start + rng.integers(round(0.4 * period), round(0.6 * period) + 1, n)
            angle = rng.uniform(-math.pi, math.pi, n)
            push[when, np.arange(n)] = speed * np.stack([np.cos(angle), np.sin(angle)], 1)
    return push
