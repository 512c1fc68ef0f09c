"""Commands: the kinds that a task names, and what training, checkpoints, measures and bundles ask of them.

A kind is a frozen dataclass with its ``ranges``; ours have a row in :data:`KINDS`, and one of another package is named
``module:Class``. Unless it has a ``sampler`` of its own, training draws its numbers uniformly.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from gaitway_files.errors import UserError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from .world import RobotState, World

KINDS = (
    "gaitway_tasks.mdp.commands:UniformVelocityCommand",
    "gaitway_tasks.mdp.pose:UniformPoseCommand",
    "gaitway_tasks.lift:ObjectPoseCommand",
    "gaitway_tracking.command:MotionCommand",
)
"""The kinds of command, imported when a task has one."""
TWIST = ("lin_vel_x", "lin_vel_y", "ang_vel_z")
"""Numbers of a velocity command: vx, vy [m/s] and yaw rate [rad/s]."""


class Command(ABC):
    """One kind of command, D numbers that each robot is told."""

    resampling_time_range: tuple[float, float] = (10.0, 10.0)
    """Shortest and longest time between two draws [s]."""
    acceleration: tuple[float, ...] | None = None
    """Largest change of each number per second in an exported policy; None does not limit them."""
    rest: tuple[float, ...] | None = None
    """Numbers that an exported policy starts and ends with; None is all zero."""
    units: ClassVar[tuple[str, ...]] = ()
    """Unit of each number."""
    suite: ClassVar[str] = ""
    """Suite that judges exported policies, as ``module:OBJECT``; a velocity has its own."""
    margin: float = 0.0
    """Share by which training draws beyond the ranges."""
    mirror: ClassVar[str | None] = None
    """Key of :data:`.symmetry.SIGNS` that mirrors the numbers; None if symmetry cannot be used with it."""

    @abstractmethod
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Lowest and highest value of each number, by name, in order."""

    def sampler(self, world: World, generator: torch.Generator) -> CommandSampler:
        """Its values in the environments of ``world``, drawn with ``generator``."""
        return CommandSampler(self, world, generator)

    def steered(self) -> Command:
        """Command for an operator, who alone changes its numbers."""
        return self

    def limited(self, told: Tensor, last: Tensor, world: World) -> Tensor:
        """What a policy is told of an operator's command ``told`` (N, D) a control step after it was told ``last``.

        An exported graph computes it, and remembers it. By default it is the command, changed no faster than
        :attr:`acceleration` allows.
        """
        import torch

        if self.acceleration is None:
            return told
        most = torch.tensor(self.acceleration, device=told.device) * world.step_dt
        return last + torch.clamp(told - last, -most, most)

    def settles(self, world: World) -> float:
        """Longest time for which a policy still moves after it is :meth:`limited` to rest [s]."""
        return 0.0

    def motion(self, world: World) -> bytes | None:
        """File of the motion that it plays, for a bundle; None without one."""
        return None

    def errors(self, told: Tensor, robot: RobotState) -> dict[str, Tensor]:
        """Distance of each robot from what it was ``told`` (N, D), by a name of each measure, (N,)."""
        return {}


class CommandSampler:
    """State of one command: its numbers (N, D) and timers, drawn uniformly from the command's ranges."""

    STATE: ClassVar[tuple[str, ...]] = ("command", "time_left")
    """The tensors that a checkpoint keeps."""

    def __init__(self, cfg: Command, world: World, generator: torch.Generator):
        import torch

        self.world, self.generator, self.of = world, generator, cfg
        self.ranges, self.margin, self.time_range = cfg.ranges(), cfg.margin, cfg.resampling_time_range
        self.command = torch.zeros(world.num_envs, len(self.ranges), device=world.device)
        self.time_left = torch.zeros(world.num_envs, device=world.device)
        self.settling: Tensor | None = None
        """Time for which robots told to stand are still to step [s], (N,); None if they are told so at once."""

    def resample(self, env_ids: Tensor) -> None:
        """Draw new commands and timers for ``env_ids``."""
        import torch

        limits = torch.tensor([self.time_range, *self.ranges.values()], device=self.command.device)
        drawn = torch.rand(len(env_ids), len(limits), generator=self.generator, device=self.command.device)
        drawn = limits[:, 0] + (limits[:, 1] - limits[:, 0]) * drawn
        self.time_left[env_ids], self.command[env_ids] = drawn[:, 0], (1.0 + self.margin) * drawn[:, 1:]

    def due(self, dt: float) -> Tensor:
        """Mask (N,) of the commands whose time is over within ``dt`` [s]."""
        return self.time_left - dt <= 0.0

    def step(self, dt: float, due: Tensor | None = None) -> None:
        """Advance the timers by ``dt``, resample the environments ``due`` (n,), and advance the commands.

        Without ``due`` they are those of :meth:`due`.
        """
        from .waits import rows_of

        (due,) = rows_of([self.due(dt)]) if due is None else (due,)
        self.time_left -= dt
        if len(due):
            self.resample(due)
        self.advance(dt)

    def advance(self, dt: float) -> None:
        """Change what depends on time and on the state of the robots."""
        self.follow()

    def follow(self) -> None:
        """Change what depends on the state of the robots alone."""

    def end(self, dt: float, env_ids: Tensor) -> None:
        """Advance the commands of ``env_ids`` (n,) alone, whose episodes end, for their final observation."""
        before = self.state_dict()
        self.advance(dt)
        for name, value in before.items():
            after = getattr(self, name)
            if len(value) == self.world.num_envs:
                value[env_ids] = after[env_ids]
            after.copy_(value)

    def state_dict(self) -> dict[str, Tensor]:
        """State for a checkpoint: copies of the commands and of their timers."""
        return {name: getattr(self, name).clone() for name in self.STATE}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on where :meth:`state_dict` was."""
        for name, value in state.items():
            getattr(self, name).copy_(value)


def check_numbers(name: str, command: Command) -> None:
    """Raise :class:`UserError` for a command whose numbers do not fit together, before a training begins with it."""
    numbers, of = command.ranges(), f"{name!r}, a {type(command).__name__}"
    if not numbers:
        raise UserError(f"{of}: its ranges are empty: give it one for each number that a robot is told")
    for key, (low, high) in numbers.items():
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise UserError(f"{of}: the range of {key} is ({low}, {high}): give finite ones, the lowest first")
    for field in ("acceleration", "rest", "units"):
        values = getattr(command, field)
        if isinstance(values, str):
            raise UserError(f"{of}: its {field} is {values!r}: expected a tuple, ({values!r},)")
        if values and len(values) != len(numbers):
            raise UserError(f"{of}: its {field} {tuple(values)} need one for each of {', '.join(numbers)}")
    if not all(0.0 < most < math.inf for most in command.acceleration or ()):
        raise UserError(f"{of}: its acceleration is {command.acceleration}: all must be above 0")
    for (key, (low, high)), value in zip(numbers.items(), command.rest or (), strict=False):
        if not low <= value <= high:
            raise UserError(f"{of}: its rest of {key} is {value}, outside the range ({low}, {high})")
    if command.suite and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", command.suite):
        raise UserError(f"{of}: its suite is {command.suite!r}: expected module:OBJECT")


def check_exported(name: str, command: Command) -> None:
    """Raise :class:`UserError` for a command with which no policy can be exported."""
    if is_velocity(command):
        return
    if command.margin:
        raise UserError(f"command {name!r} has margin={command.margin:g}, which velocities alone have: set it to 0")
    if missing := [field for field in ("acceleration", "rest", "units") if not getattr(command, field)]:
        raise UserError(
            f"command {name!r} has no {' and no '.join(missing)}, and an exported policy needs one for each of "
            f"{', '.join(command.ranges())}: set {' and '.join(f'{type(command).__name__}.{each}' for each in missing)}"
        )


def steering(task: Any) -> tuple[str, Command]:
    """The one command of ``task``, by name: operators steer by it, and bundles carry it."""
    if len(task.commands) != 1:
        raise UserError(
            f"the commands of {task.name} are {_listed(task)}: an operator gives one, which a bundle has an input for; "
            "give the task exactly one to export or steer it"
        )
    ((name, command),) = task.commands.items()
    return name, command


def is_velocity(command: Command) -> bool:
    """True for a planar velocity: vx, vy [m/s] and yaw rate [rad/s]."""
    return tuple(command.ranges()) == TWIST


def check_suite(task: Any) -> None:
    """Raise :class:`UserError` if no suite judges the policies of ``task``."""
    _, command = steering(task)
    if not (command.suite or is_velocity(command)):
        raise UserError(
            f"{task.name} follows {', '.join(command.ranges())}, and no suite judges it: give its command a suite, "
            f"{type(command).__name__}.suite = 'module:SUITE' (docs/your_task.md)"
        )


def velocity_steering(task: Any) -> tuple[str, Command]:
    """:func:`steering`, for what is about planar velocities."""
    name, command = steering(task)
    if not is_velocity(command):
        raise UserError(
            f"the commands of {task.name} are {_listed(task)}: this works for a velocity of {', '.join(TWIST)}"
        )
    return name, command


def _listed(task: Any) -> str:
    found = {name: ", ".join(command.ranges()) for name, command in task.commands.items()}
    return "; ".join(f"{name!r} of {numbers}" for name, numbers in found.items()) or "none"
