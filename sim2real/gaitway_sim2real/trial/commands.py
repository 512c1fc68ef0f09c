"""Commands to robots: what a suite draws, and the kinds that suit any numbers.

A share of robots that fall needs independent robots. Commands are therefore drawn at random, anew in every repetition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from .scenario import Scenario
from .stressors import Stressor

PERIOD = 4.0
"""Time between two commands, and two pushes [s]."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """The D numbers that a policy can be told."""

    ranges: np.ndarray
    """Lowest and highest value of each, (D, 2)."""
    still: np.ndarray
    """What an operator who says nothing means, (D,)."""
    control_dt: float
    """[s]"""
    spread: np.ndarray = field(default_factory=lambda: np.zeros((0, 3, 2)))
    """Ranges by which each of K objects starts off its place [m], (K, 3, 2)."""

    @classmethod
    def of(cls, contract: Contract) -> Told:
        objects = contract.objects or {}
        return cls(
            ranges=np.array(contract.command_ranges),
            still=np.array(contract.still),
            control_dt=contract.control_dt,
            spread=np.array([each.spread for each in objects.values()]).reshape(len(objects), 3, 2),
        )

    def steps(self, seconds: float) -> int:
        """Control steps in ``seconds``, at least one."""
        return max(1, round(seconds / self.control_dt))

    def uniform(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draws within all ranges, (n, D)."""
        return rng.uniform(self.ranges[:, 0], self.ranges[:, 1], (n, len(self.ranges)))


@dataclass(frozen=True, kw_only=True)
class Commands:
    """One kind of commands."""

    draw: Callable[[Scenario, Told, np.random.Generator], np.ndarray]
    """Commands (T, N, D) of a scenario's N robots in its T control steps."""
    needs: tuple[str, ...] = ()
    """Names of the suite's needs."""
    stressors: tuple[Stressor, ...] = ()
    """Stressors that come with it, such as one that steers."""


Held = Callable[[Told, int, np.random.Generator], np.ndarray]


def held(command: Held, needs: tuple[str, ...] = (), stressors: tuple[Stressor, ...] = ()) -> Commands:
    """Commands (N, D) that ``command`` draws, and that robots hold for the whole time."""

    def draw(scenario: Scenario, told: Told, rng: np.random.Generator) -> np.ndarray:
        drawn = np.asarray(command(told, scenario.envs, rng))
        return np.broadcast_to(drawn, (told.steps(scenario.seconds), *drawn.shape))

    return Commands(draw=draw, needs=needs, stressors=stressors)


def _steps(scenario: Scenario, told: Told, rng: np.random.Generator) -> np.ndarray:
    """A new draw in each :data:`PERIOD`."""
    steps, period = told.steps(scenario.seconds), told.steps(PERIOD)
    command = np.stack([told.uniform(scenario.envs, rng) for _ in range(math.ceil(steps / period))])
    return np.repeat(command, period, axis=0)[:steps]


GENERAL: dict[str, Commands] = {
    "still": held(lambda told, n, rng: np.tile(told.still, (n, 1))),
    "random": held(Told.uniform),
    "steps": Commands(draw=_steps),
}
"""Kinds of commands of every suite."""
