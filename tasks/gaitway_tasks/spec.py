"""Task specification: a frozen tree of dataclasses with data and plain functions, without simulator objects.

Names follow Isaac Lab's manager-based environments. A robot-specific task is made by a factory that edits a base
spec (see :mod:`gaitway_tasks.velocity`), and a preset is :func:`dataclasses.replace` over the same tree.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gaitway_files.errors import UserError

from .actions import Action
from .commands import Command
from .ground import LEVEL, Ground
from .objects import RigidObject
from .robots.robot import Robot

Params = Mapping[str, Any]
Term = Callable[..., Any]


PHYSICS_DT = 1e-5, 0.1
"""Shortest and longest physics step [s]; stiff contacts are simulated at 1e-4, and 0.02 is coarse."""
MAX_DECIMATION = 1000
MAX_CONTROL_DT = 1.0
"""Longest control step [s]; walking robots have 0.002 to 0.05."""
MAX_EPISODE_S = 1e7
"""Longest episode [s], four months."""
MAX_HISTORY = 1000
"""Longest observation history [frames]; 100 is already long."""
MAX_SCAN_POINTS = 10_000
"""Most points of a height scan."""


@dataclass(frozen=True, kw_only=True)
class UniformNoise:
    """Additive noise, uniform in ``[low, high]``, in the unit of the term it is added to."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class ObservationTerm:
    """``func(world, **params)``, then noise, clip and scale, in Isaac Lab's order."""

    func: Term
    params: Params = field(default_factory=dict)
    noise: UniformNoise | None = None
    clip: tuple[float, float] | None = None
    scale: float | tuple[float, ...] = 1.0
    """One factor, or one for each number of the term."""

    def __post_init__(self) -> None:
        if isinstance(self.func, type):
            raise UserError(
                f"observation {self.func.__name__} is a class: robots observe by functions, whose only memory is "
                "history_length; write a function"
            )


@dataclass(frozen=True, kw_only=True)
class ObservationGroup:
    """Ordered terms, concatenated.

    With ``history_length`` H > 1 every term keeps its last H values, oldest first, and the group is the
    concatenation of the flattened histories (term-major, as in Isaac Lab). After a reset the history is filled with
    the first observation.
    """

    terms: Mapping[str, ObservationTerm]
    history_length: int = 1
    enable_corruption: bool = False

    def __post_init__(self) -> None:
        if not self.history_length <= MAX_HISTORY:
            raise UserError(f"history_length {self.history_length}: at most {MAX_HISTORY}, which no policy comes near")


@dataclass(frozen=True, kw_only=True)
class Reward:
    """``weight * func(world, **params) * step_dt``."""

    func: Term
    weight: float
    params: Params = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Termination:
    """``func(world, **params) -> bool (N,)``; ``time_out=True`` marks a truncation."""

    func: Term
    params: Params = field(default_factory=dict)
    time_out: bool = False


@dataclass(frozen=True, kw_only=True)
class Event:
    """``func(world, env_ids, **params)`` at start-up, at each reset, or at its own random intervals."""

    func: Term
    mode: str
    params: Params = field(default_factory=dict)
    interval_range_s: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("startup", "reset", "interval"):
            raise UserError(f"event mode {self.mode!r}: use 'startup', 'reset' or 'interval'")
        if (self.mode == "interval") != (self.interval_range_s is not None):
            raise UserError("interval_range_s belongs to interval events, and only to them")


@dataclass(frozen=True, kw_only=True)
class Curriculum:
    """``func(world, env_ids, **params)``, called before each reset of ``env_ids``."""

    func: Term
    params: Params = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class HeightScanner:
    """Grid of vertical rays under a body, yaw-aligned, x fastest (Isaac Lab's ``ordering="xy"``).

    ``body`` None is the base.
    """

    resolution: float = 0.1
    size: tuple[float, float] = (1.6, 1.0)
    body: str | None = None

    def __post_init__(self) -> None:
        points = (
            math.prod(length / self.resolution + 1.0 for length in self.size) if self.resolution > 0.0 else math.inf
        )
        if not points <= MAX_SCAN_POINTS:
            raise UserError(
                f"height scanner with resolution {self.resolution:g} m over {self.size[0]:g} x {self.size[1]:g} m: "
                f"that are {points:.3g} points, and {MAX_SCAN_POINTS} at most; Isaac Lab's has 187"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Points along y and along x."""
        along_x, along_y = (int(length / self.resolution + 1e-6) + 1 for length in self.size)
        return along_y, along_x


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Physics step [s], physics steps per control step, episode length [s]."""

    physics_dt: float = 0.005
    decimation: int = 4
    episode_length_s: float = 20.0

    def __post_init__(self) -> None:
        low, high = PHYSICS_DT
        if not (low <= self.physics_dt <= high and 1 <= self.decimation <= MAX_DECIMATION):
            raise UserError(
                f"physics_dt={self.physics_dt:g} s and decimation={self.decimation}: a physics step is of {low:g} to "
                f"{high:g} s, and a control step has 1 to {MAX_DECIMATION} of them"
            )
        if not self.step_dt <= MAX_CONTROL_DT:
            raise UserError(
                f"a control step of {self.step_dt:g} s: robots are controlled every {MAX_CONTROL_DT:g} s at least"
            )
        if not 0.0 < self.episode_length_s <= MAX_EPISODE_S:
            raise UserError(
                f"episode_length_s={self.episode_length_s:g}: give more than 0 s and at most {MAX_EPISODE_S:g}"
            )

    @property
    def step_dt(self) -> float:
        """Duration of a control step [s]."""
        return self.physics_dt * self.decimation

    @property
    def max_episode_length(self) -> int:
        """Control steps of a whole episode."""
        return round(self.episode_length_s / self.step_dt)


@dataclass(frozen=True, kw_only=True)
class Task:
    """Complete description of a task: a world builds environments from it, and an export describes the policy by it."""

    name: str
    robot: Robot
    observations: Mapping[str, ObservationGroup]
    actions: Action
    rewards: Mapping[str, Reward]
    terminations: Mapping[str, Termination]
    commands: Mapping[str, Command]
    events: Mapping[str, Event] = field(default_factory=dict)
    curriculum: Mapping[str, Curriculum] = field(default_factory=dict)
    height_scanners: Mapping[str, HeightScanner] = field(default_factory=dict)
    ground: Ground = LEVEL
    objects: Mapping[str, RigidObject] = field(default_factory=dict)
    """Objects beside the robot, by name."""
    timing: Timing = field(default_factory=Timing)
    estimators: tuple[str, ...] = ()
    """Signals no sensor measures that the deployed robot estimates: ``root_lin_vel_b``, ``height_scan``,
    ``object_pos``."""

    def replace(self, **changes: Any) -> Task:
        """Copy of the task with other values for these fields."""
        return dataclasses.replace(self, **changes)

    def unmeasurable_signals(self) -> dict[str, list[str]]:
        """Signals the actor reads that the robot neither measures nor estimates: ``{term: [signal, ...]}``."""
        from .signals import IMU, MEASURED, signals_of

        known = (MEASURED - IMU if self.robot.fixed_base else MEASURED) | set(self.estimators)
        found = {
            name: sorted(signals_of(term.func) - known) for name, term in self.observations["policy"].terms.items()
        }
        return {name: missing for name, missing in found.items() if missing}
