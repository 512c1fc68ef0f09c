"""A tour with blows, for walking robots that a policy has never seen, and what it is to survive it.

A tour takes 27 s: 1 s of standing, six of eight legs of 4 s in random order, and a stop of 2 s. One blow falls in each
leg. A twin **survives** if it does not fall, and goes and turns at least half as far as it is told to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.mujoco.model import GRAVITY
from gaitway_sim2real.population.survey import Tours
from gaitway_sim2real.population.walk import Blow, Walk

from .command_classes import SLOWEST

STANDS, LEG, STOPS = 1.0, 4.0, 2.0  # [s]
LEGS_OF_A_TOUR = 6
SETTLES = 1.5
"""Start of each leg that does not count in what was gone and turned [s]."""
PROGRESS = 0.5
"""Least share of the commanded way and turn of a twin that survives."""
STRONGEST, WEAKEST = 0.28, 0.05
"""Impulse of blows over the robot's mass, in sqrt(g L): 0.62 and 0.11 m/s for an ANYmal C."""
ABOVE = 0.1
"""Largest height of a blow above and below the base's centre of mass, in standing heights."""
Shares = tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
LEGS: tuple[Shares, ...] = (
    ((0.8, 1.0), (0.0, 0.0), (0.0, 0.0)),  # ahead, fast
    ((0.3, 0.5), (0.0, 0.0), (0.0, 0.0)),  # ahead, slowly
    ((-0.8, -0.4), (0.0, 0.0), (0.0, 0.0)),  # back
    ((0.0, 0.0), (0.4, 0.8), (0.0, 0.0)),  # sideways
    ((0.0, 0.0), (0.0, 0.0), (0.5, 1.0)),  # turning
    ((0.4, 0.7), (0.0, 0.0), (0.4, 0.7)),  # in an arc
    ((-0.6, 0.6), (-0.6, 0.6), (-0.6, 0.6)),  # anything
    ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0)),  # standing
)
"""Shares of the ends of the contract's ranges along vx, vy and yaw rate; vy and yaw rate also mirrored."""


@dataclass(frozen=True, kw_only=True)
class Tour:
    """What one twin is told and what hits it."""

    command: np.ndarray  # (T, 3) [m/s, m/s, rad/s]
    blows: tuple[Blow, ...]


def tour(contract: Contract, stand_height: float, number: int, seed: int) -> Tour:
    """Tour ``number`` for a robot with ``stand_height`` [m]."""
    rng = np.random.default_rng((seed, number, 7))
    ranges = np.array(contract.command_ranges)
    rest = np.clip(0.0, *ranges.T)
    count = {name: round(seconds / contract.control_dt) for name, seconds in (("stand", STANDS), ("leg", LEG))}
    parts, blows = [np.tile(rest, (count["stand"], 1))], []
    for i, which in enumerate(rng.permutation(len(LEGS))[:LEGS_OF_A_TOUR]):
        parts.append(np.tile(_command(LEGS[which], ranges, rng), (count["leg"], 1)))
        size = rng.uniform(WEAKEST, STRONGEST) * math.sqrt(GRAVITY * stand_height)
        angle = rng.uniform(-math.pi, math.pi)
        blows.append(
            Blow(
                at=STANDS + i * LEG + rng.uniform(1.0, LEG - 1.0),
                impulse=(size * math.cos(angle), size * math.sin(angle)),
                above=rng.uniform(-ABOVE, ABOVE),
            )
        )
    parts.append(np.tile(rest, (round(STOPS / contract.control_dt), 1)))
    return Tour(command=np.vstack(parts), blows=tuple(blows))


def _command(shares: Shares, ranges: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A command within ``ranges`` (3, 2); along axes whose range ends below :data:`SLOWEST` it is rest."""
    found = np.clip(0.0, *ranges.T)
    for axis, share in enumerate(shares):
        drawn = rng.uniform(*share) * (1.0 if axis == 0 else rng.choice([-1.0, 1.0]))
        end = ranges[axis, 1] if drawn > 0 else -ranges[axis, 0]
        if drawn and end >= SLOWEST:
            found[axis] = drawn * end
    return found


def progress(walk: Walk) -> np.ndarray:
    """Way and turn along the command over those commanded, (N, 2), infinite where none was; the stops do not count."""
    steps, n = walk.command.shape[:2]
    time = np.arange(steps) * walk.control_dt - STANDS
    counts = ((time >= 0) & (time < LEGS_OF_A_TOUR * LEG) & (time % LEG >= SETTLES))[:, None]
    told = walk.command * counts[..., None] * walk.alive[..., None]
    found = np.full((n, 2), np.inf)
    for column, (axes, speed) in enumerate(((slice(0, 2), walk.lin_vel), (slice(2, 3), walk.ang_vel))):
        asked = np.linalg.norm(told[..., axes], axis=-1)
        along = (told[..., axes] * speed[..., axes]).sum(-1) / np.where(asked > 0, asked, 1.0)
        total = asked.sum(0)
        np.divide(along.sum(0), total, out=found[:, column], where=total > 0)
    return found


def survived(walk: Walk) -> np.ndarray:
    """Twins that neither fell nor lagged, (N,) bool."""
    return np.asarray(~walk.fell & (progress(walk) >= PROGRESS).all(1))


TOURS = Tours(draw=tour, survived=survived, tracking={"lin_vel_error": 0.01, "yaw_vel_error": 0.01})
