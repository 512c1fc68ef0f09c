"""What a task is: a frozen tree of dataclasses, holding data and plain functions and no simulator objects.

Names follow Isaac Lab's manager-based environments. A robot-specific task is made by a factory that edits a base
spec (see :mod:`gaitway_tasks.velocity`), and a preset is :func:`dataclasses.replace` over the same tree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .robots.robot import Robot

Params = Mapping[str, Any]
Term = Callable[..., Any]


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
    scale: float = 1.0


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


@dataclass(frozen=True, kw_only=True)
class JointPositionAction:
    """Joint position target [rad] = default pose + ``scale`` * action, over all joints in canonical order."""

    scale: float = 0.5


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
class UniformVelocityCommand:
    """Base velocity command (vx, vy [m/s], yaw rate [rad/s]), as Isaac Lab's ``UniformVelocityCommand``.

    With ``heading_command`` a target heading is drawn and the yaw rate follows
    ``heading_control_stiffness * heading error``, clipped to ``ang_vel_z``. ``rel_zero_axis`` is ours: the share of
    commands in which each linear axis is exactly zero, a case that a uniform draw never shows a policy.
    """

    resampling_time_range: tuple[float, float] = (10.0, 10.0)
    rel_standing_envs: float = 0.02
    rel_heading_envs: float = 1.0
    rel_zero_axis: float = 0.0
    heading_command: bool = True
    heading_control_stiffness: float = 0.5
    lin_vel_x: tuple[float, float] = (-1.0, 1.0)
    lin_vel_y: tuple[float, float] = (-1.0, 1.0)
    ang_vel_z: tuple[float, float] = (-1.0, 1.0)
    heading: tuple[float, float] = (-3.141592653589793, 3.141592653589793)


@dataclass(frozen=True, kw_only=True)
class Event:
    """``func(world, env_ids, **params)`` at start-up, at each reset, or at random intervals of its own."""

    func: Term
    mode: str
    params: Params = field(default_factory=dict)
    interval_range_s: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("startup", "reset", "interval"):
            raise ValueError(f"event mode {self.mode!r}: use 'startup', 'reset' or 'interval'")
        if (self.mode == "interval") != (self.interval_range_s is not None):
            raise ValueError("interval_range_s belongs to interval events, and only to them")


@dataclass(frozen=True, kw_only=True)
class Curriculum:
    """``func(world, env_ids, **params)``, called before each reset of ``env_ids``."""

    func: Term
    params: Params = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class HeightScanner:
    """Grid of vertical rays under the base, yaw-aligned, x fastest (Isaac Lab's ``ordering="xy"``)."""

    resolution: float = 0.1
    size: tuple[float, float] = (1.6, 1.0)


@dataclass(frozen=True, kw_only=True)
class Terrain:
    """Ground of the task: ``plane``."""

    kind: str = "plane"
    friction: float = 1.0

    def __post_init__(self) -> None:
        if self.kind != "plane":
            raise ValueError(f"terrain kind {self.kind!r}: only 'plane' is known")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Physics step [s], physics steps per control step, episode length [s]."""

    physics_dt: float = 0.005
    decimation: int = 4
    episode_length_s: float = 20.0

    @property
    def step_dt(self) -> float:
        return self.physics_dt * self.decimation

    @property
    def max_episode_length(self) -> int:
        return round(self.episode_length_s / self.step_dt)


@dataclass(frozen=True, kw_only=True)
class Task:
    """Everything a world needs to build an environment, and everything an export needs to describe it."""

    name: str
    robot: Robot
    observations: Mapping[str, ObservationGroup]
    actions: JointPositionAction
    rewards: Mapping[str, Reward]
    terminations: Mapping[str, Termination]
    commands: Mapping[str, UniformVelocityCommand]
    events: Mapping[str, Event] = field(default_factory=dict)
    curriculum: Mapping[str, Curriculum] = field(default_factory=dict)
    height_scanners: Mapping[str, HeightScanner] = field(default_factory=dict)
    terrain: Terrain = field(default_factory=Terrain)
    timing: Timing = field(default_factory=Timing)
    estimators: tuple[str, ...] = ()
    """Signals no sensor measures for which the deployed robot runs a named estimator."""

    def replace(self, **changes: Any) -> Task:
        return dataclasses.replace(self, **changes)

    def unmeasurable_signals(self) -> dict[str, list[str]]:
        """Signals the actor reads that the robot neither measures nor estimates: ``{term: [signal, ...]}``."""
        from .signals import MEASURED, signals_of

        known = MEASURED | set(self.estimators)
        found = {
            name: sorted(signals_of(term.func) - known) for name, term in self.observations["policy"].terms.items()
        }
        return {name: missing for name, missing in found.items() if missing}
