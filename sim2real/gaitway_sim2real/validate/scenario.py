"""Parts of a scenario: limits in units of the robot, and one experiment as data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from gaitway_tasks.ground import LEVEL, Ground

from ..mujoco.model import GRAVITY
from ..mujoco.physics import NOMINAL_PHYSICS, Physics
from .needs import FOOT_PAIRS, OTHER_FEET, TWO_FEET, VELOCITY
from .stressors import Stressor

Range = tuple[float, float]
NOMINAL_FRICTION = 0.8
MIXED = "mixed"
AHEAD = "ahead"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """``metric <= value``, or ``>=`` when ``at_least``."""

    metric: str
    """Name of a metric: a key of :data:`.metrics.METRICS`."""
    value: float
    at_least: bool = False
    """True if the metric must not be lower, False if it must not be higher."""
    unit: str = ""
    """One of :data:`ROBOT_UNITS`: ``value`` counts in it and grows with the robot."""
    needs: tuple[str, ...] = ()
    """Properties that the robot must have for the limit to apply: names of :data:`.needs.NEEDS`."""

    def passes(self, measured: float) -> bool:
        """NaN never passes."""
        return measured >= self.value if self.at_least else measured <= self.value

    def for_robot(self, height: float) -> Limit:
        """The limit in SI units, for a robot whose base stands ``height`` [m] above the ground."""
        return replace(self, value=self.value * ROBOT_UNITS[self.unit](height), unit="") if self.unit else self


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
    """Needs besides those of its commands, without which it is left out: names of :data:`.needs.NEEDS`."""
    envs: int = 64
    """Number of robots; in the suite 12 to 288."""
    seconds: float = 10.0
    """Length of the run [s]; in the suite 8 to 30."""
    commands: str = "random"
    """``grid``, ``small_grid`` (a quarter of it), ``mixed`` (corners, draws and all classes), ``standing``, ``random``
    (a fifth of the robots stand), ``steps`` (a new command every 4 s), ``straight``, ``stops`` (full speed, then zero),
    ``ahead`` (0.5 m/s, steered) or one of :data:`.command_classes.CLASSES`; see :mod:`.commands`."""
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
    """Name of the ladder of grounds that it is on: one of :data:`.rough.LADDERS`."""
    physics: Physics = NOMINAL_PHYSICS
    """Settings of the simulator."""
    gait: bool = False
    """True if the feet are recorded at every physics step and the gait is measured."""
    draws: str = ""
    """Name that enters the seed in place of the scenario's: those of the same one have the same commands and starts."""
    engine: str = ""
    """Title of the physics engine; without one, MuJoCo."""
    same_as: str = ""
    """Name of the scenario that this one repeats in another engine."""
    factor: str = ""
    """Factor that it changes, alone, in :data:`.variants.NOMINAL`: one of :data:`.variants.FACTORS`, or a new one."""
    level: str = ""
    """Level of the factor, as text."""
    number: float | None = None
    """Level as a number, where it is one."""


FALLS_1 = Limit(metric="falls", value=0.01)
FALLS_5 = Limit(metric="falls", value=0.05)
CORNERS = Limit(metric="corner_falls", value=0.0, needs=(VELOCITY,))
LINEAR = Limit(metric="lin_vel_error", value=0.15, needs=(OTHER_FEET,))
# A walk on two feet w apart sways by w/T (1 - 1/cosh(T/2 sqrt(g/L))) on average, as a pendulum does that changes its
# foot every T: 0.11 to 0.17 m/s for an H1, whose feet stand 0.4 m apart. What it must follow is the mean: BIAS.
LINEAR_ON_TWO = Limit(metric="lin_vel_error", value=0.20, needs=(TWO_FEET,))
YAW = Limit(metric="yaw_vel_error", value=0.15)
BIAS = (Limit(metric="lin_vel_bias", value=0.05), Limit(metric="yaw_vel_bias", value=0.05))
REST = (
    Limit(metric="rest_speed", value=0.02),
    Limit(metric="rest_yaw_rate", value=0.02),
    Limit(metric="rest_joint_speed", value=0.05),
    Limit(metric="rest_torque_change", value=0.1),
)
STEPS_1 = Limit(metric="steps_at_rest", value=0.01)
STEPS_5 = Limit(metric="steps_at_rest", value=0.05)

WALKS = (VELOCITY,)
GAIT_LIMITS = (
    # A leg that swings freely takes 2.6 sqrt(L/g). People, L 0.93 m: 0.4 s, which is 1.3; the limit is 0.25 s.
    Limit(metric="swing_time", value=0.80, at_least=True, unit="time", needs=WALKS),
    # People: 0.9 to 1 a second, 0.3 sqrt(g/L); the limit is 2.0 a second.
    Limit(metric="step_rate", value=0.62, unit="rate", needs=WALKS),
    # The highest threshold of a door is 13 mm. People's toes clear 11 to 19 mm where they are lowest, 0.012 to 0.02 L.
    Limit(metric="clearance", value=0.06, at_least=True, unit="length", needs=(VELOCITY, OTHER_FEET)),
    Limit(metric="clearance", value=0.02, at_least=True, unit="length", needs=(VELOCITY, TWO_FEET)),
    Limit(metric="slip", value=0.05, unit="speed", needs=WALKS),
    Limit(metric="dragging_feet", value=0.02, needs=WALKS),
    Limit(metric="stumbles", value=0.1, needs=WALKS),
    Limit(metric="lin_vel_error", value=0.2),
    Limit(metric="yaw_vel_error", value=0.2),
)
"""Sources of the figures: docs/gait_metrics.md."""
LIMP = Limit(metric="left_right", value=0.4, needs=(VELOCITY, FOOT_PAIRS))
