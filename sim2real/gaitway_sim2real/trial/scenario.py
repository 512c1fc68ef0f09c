"""Parts of a scenario: limits in units of the robot, and one experiment as data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gaitway_files.errors import UserError
from gaitway_tasks.ground import LEVEL, Ground

from ..mujoco.model import GRAVITY
from ..mujoco.physics import NOMINAL_PHYSICS, Physics
from .stressors import Stressor

Range = tuple[float, float]
NOMINAL_FRICTION = 0.8
MARGIN = 0.05
"""Share by which an examination tightens limits. Shorter walks count more of the start: beside the suite, ANYmal's
velocity errors came out 3 to 11 % of their limits worse, the other numbers 0 to 16 % worse, none better by over 2 %."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """``metric <= value``, or ``>=`` when ``at_least``."""

    metric: str
    """Name of one of the suite's metrics."""
    value: float
    at_least: bool = False
    """True if the metric must not be lower, False if it must not be higher."""
    unit: str = ""
    """One of :data:`ROBOT_UNITS`: ``value`` counts in it and grows with the robot."""
    needs: tuple[str, ...] = ()
    """Properties that the robot must have for the limit to apply: names of the suite's needs."""

    def __post_init__(self) -> None:
        if math.isnan(self.value):
            raise UserError(f"limit of {self.metric!r}: its value is not a number, and nothing would hold it")

    def passes(self, measured: float) -> bool:
        """NaN never passes."""
        return measured >= self.value if self.at_least else measured <= self.value

    def for_robot(self, height: float) -> Limit:
        """The limit in SI units, for a robot whose base stands ``height`` [m] above the ground."""
        return replace(self, value=self.value * ROBOT_UNITS[self.unit](height), unit="") if self.unit else self

    def tightened(self) -> Limit:
        """The limit of an examination in training: by :data:`MARGIN`."""
        return replace(self, value=self.value * (1.0 + MARGIN if self.at_least else 1.0 - MARGIN))


ROBOT_UNITS: dict[str, Callable[[float], float]] = {
    "length": lambda height: height,
    "time": lambda height: math.sqrt(height / GRAVITY),
    "rate": lambda height: math.sqrt(GRAVITY / height),
    "speed": lambda height: math.sqrt(GRAVITY * height),
}
"""L, sqrt(L/g), sqrt(g/L) and sqrt(g L), with the standing height L: robots that move alike have the same numbers."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One experiment, repeated on ``envs`` robots. Ranges are uniform, one draw per robot."""

    name: str
    title: str
    about: str
    limits: tuple[Limit, ...]
    required: bool = True
    """True if its limits decide the verdict; otherwise they are shown for orientation."""
    needs: tuple[str, ...] = ()
    """Needs besides those of its commands, without which it is left out: names of the suite's needs."""
    envs: int = 64
    """Number of robots; in the suite 12 to 288."""
    seconds: float = 10.0
    """Length of the run [s]; in the suite 8 to 30."""
    commands: str = "random"
    """One of the suite's kinds of commands: ``still``, ``random``, ``steps`` (a new one every 4 s), or its own."""
    push: float = 0.0
    """Velocity step in a random horizontal direction, one in each full four seconds [m/s]; typically 0.5 to 1."""
    push_once: bool = False
    """True if the only push is in the first four seconds."""
    # Verdicts depend on the one stream that pushes, starts and the following ranges are drawn from, in this order.
    friction: Range = (NOMINAL_FRICTION, NOMINAL_FRICTION)
    """Sliding friction of the ground; typically 0.4 to 1.2."""
    payload: Range = (0.0, 0.0)
    """Mass added to the base [kg]; typically -5 to 5."""
    strength: Range = (1.0, 1.0)
    """Factor on the delivered torque; typically 0.9 to 1.1."""
    delay: Range = (0.0, 0.0)
    """Time from the policy's output to the motors [s]; typically 0 to 0.02."""
    stressors: tuple[Stressor, ...] = ()
    """Further difficulties, such as sensor noise."""
    ground: Ground = LEVEL
    """Ground of the robots; they start in random directions."""
    tiles: int = 1
    """Number of tiles, each drawn anew, of a random course; the robots are divided among them."""
    way: float = math.inf
    """Distance from the start along x or y [m] at which a robot has crossed the ground and is taken away."""
    guarded: bool = False
    """True if the controller's safety filter is between policy and drives: :class:`.guards.Guards`."""
    ladder: str = ""
    """Name of the ladder of grounds that it is a rung of."""
    physics: Physics = NOMINAL_PHYSICS
    """Settings of the simulator."""
    gait: bool = False
    """True if the feet are recorded at every physics step and the gait is measured."""
    draws: str = ""
    """Name that enters the seed in place of the scenario's: those of the same one have the same commands and starts."""
    engines: bool = False
    """True if it is repeated in other physics engines."""
    engine: str = ""
    """Title of the physics engine; without one, MuJoCo."""
    same_as: str = ""
    """Name of the scenario that this one repeats in another engine."""
    factor: str = ""
    """Factor that it changes, alone, in the suite's nominal scenario: one of the suite's factors, or a new one."""
    level: str = ""
    """Level of the factor, as text."""
    number: float | None = None
    """Level as a number, where it is one."""

    def __post_init__(self) -> None:
        where = f"scenario {self.name!r}"
        for field, kind in (("limits", Limit), ("stressors", Stressor), ("needs", str)):
            values = getattr(self, field)
            if not isinstance(values, tuple) or not all(isinstance(value, kind) for value in values):
                raise UserError(f"{where}: its {field} are {values!r}: expected a tuple of {kind.__name__}")
        if not (0.0 < self.seconds < math.inf and self.envs >= 1):
            raise UserError(f"{where}: {self.seconds} s with {self.envs} robots: both must be above 0")
        for field in ("friction", "payload", "strength", "delay"):
            ends = getattr(self, field)
            if not (isinstance(ends, tuple) and len(ends) == 2 and -math.inf < ends[0] <= ends[1] < math.inf):
                raise UserError(f"{where}: its {field} is {ends!r}: expected (lowest, highest)")
            if field != "payload" and ends[0] < 0.0:
                raise UserError(f"{where}: its {field} is {ends!r}: it must not be below 0")


def shorter(scenario: Scenario, **changes: Any) -> Scenario:
    """The scenario as an examination has it: tightened limits, no falls, and ``changes`` that make it short."""
    limits = tuple(limit.tightened() for limit in scenario.limits if limit.metric != "falls")
    no_falls = Limit(metric="falls", value=0.0)
    return replace(scenario, limits=(*limits, no_falls), draws=scenario.draws or scenario.name, **changes)
