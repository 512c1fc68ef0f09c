"""Clock of a gait: phases, and what each foot should do at them.

The clock counts from the start of an episode. A foot swings in the first ``1 - duty`` of its own cycle, which begins
``offsets`` cycles before the clock's; a trot has offsets 0 and 0.5 on the diagonals. A cycle is a whole number of
control steps, so functions of the phase are tables with a row for each of them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from ..passes import once
from ..world import World
from . import indices


def phase(world: World, period: float) -> Tensor:
    """Share of the current cycle of ``period`` [s] that has passed, in [0, 1), (N,)."""
    return cycle_step(world, period).float() / cycle_steps(world, period)


def cycle_steps(world: World, period: float) -> int:
    """Control steps in a cycle of ``period`` [s]; refuses one that is not a whole number of them."""
    steps = round(period / world.step_dt)
    if steps < 2 or abs(steps * world.step_dt - period) > 1e-6:
        raise UserError(f"gait period {period:g} s: it must be two or more whole control steps of {world.step_dt:g} s")
    return steps


@once
def cycle_step(world: World, period: float) -> Tensor:
    """Control step of the current cycle, from 0, int64, (N,)."""
    return torch.remainder(world.episode_step, cycle_steps(world, period))


@once
def is_commanded(world: World, command_name: str, threshold: float) -> Tensor:
    """Mask (N,) of the commands to move: (vx, vy [m/s], yaw rate [rad/s]) is longer than ``threshold``, or was a moment
    ago (:meth:`..world.World.settling`)."""
    moves = torch.linalg.vector_norm(world.command(command_name), dim=1) > threshold
    left = world.settling(command_name)
    return moves if left is None else moves.logical_or_(left > 0.0)


@once
def is_told_to_stand(world: World, command_name: str, threshold: float) -> Tensor:
    """Opposite of :func:`is_commanded`, (N,)."""
    return ~is_commanded(world, command_name, threshold)


@once
def should_stand(world: World, command_name: str, threshold: float, still: float) -> Tensor:
    """Mask (N,) of the robots that are told to stand, and that are no faster than ``still`` [m/s]."""
    told = is_told_to_stand(world, command_name, threshold)
    return told if math.isinf(still) else told & ~is_stepping(world, command_name, threshold, still)


@once
def is_stepping(world: World, command_name: str, threshold: float, still: float) -> Tensor:
    """Mask (N,) of the robots whose feet should follow the clock: commanded to move, or still moving.

    ``still`` is the largest horizontal speed [m/s] of a robot that stands.
    """
    moving = torch.linalg.vector_norm(world.robot.root_lin_vel_b[:, :2], dim=1) > still
    return moving.logical_or_(is_commanded(world, command_name, threshold))


@once
def is_in_contact(world: World, bodies: str) -> Tensor:
    """Mask (N, n) of ``bodies`` with a contact force above 1 N."""
    return world.contact_force_norm(bodies) > 1.0


def clock(world: World, period: float, late: float) -> Tensor:
    """Sine and cosine of the phase ``late`` control steps from now, (N, 2)."""
    return _by_the_clock(world, period, _clock, late * world.step_dt / period)


def swing_progress(world: World, period: float, duty: float, offsets: Sequence[float]) -> Tensor:
    """Share of each foot's swing that should have passed, in [0, 1]; 0 or 1 while it should stand, (N, F)."""
    return _by_the_clock(world, period, _progress, duty, tuple(offsets))


def swing_rise(world: World, period: float, duty: float, offsets: Sequence[float], power: float) -> Tensor:
    """Height of each foot by the clock, in heights of a whole swing: a half sine to ``power``, (N, F)."""
    return _by_the_clock(world, period, rise, duty, tuple(offsets), power)


def is_stance(world: World, period: float, duty: float, offsets: Sequence[float]) -> Tensor:
    """Mask of the feet that should stand by the clock, (N, F)."""
    return _by_the_clock(world, period, _stance, duty, tuple(offsets))


def _by_the_clock(world: World, period: float, func: Callable[..., Tensor], *args: Any) -> Tensor:
    """``func(phase, *args)``, looked up where steps are counted in whole numbers: an exported graph's are not."""
    if world.episode_step.is_floating_point():
        return func(phase(world, period), *args)
    return _table(func, args, cycle_steps(world, period), world.device).index_select(0, cycle_step(world, period))


@functools.cache
def _table(func: Callable[..., Tensor], args: tuple[Any, ...], steps: int, device: torch.device) -> Tensor:
    """``func`` at each of the ``steps`` of a cycle."""
    phases = torch.arange(steps, device=device).float() / steps
    # Sixteen copies fill the processor's vectors, since torch rounds powers of what is left over in another way.
    return func(phases.repeat(16), *args)[:steps]


def _clock(phase: Tensor, ahead: float) -> Tensor:
    angle = 2.0 * math.pi * (phase + ahead)
    return torch.stack((angle.sin(), angle.cos()), 1)


def _progress(phase: Tensor, duty: float, offsets: tuple[float, ...]) -> Tensor:
    cycle = torch.remainder(phase[:, None] + indices.row(offsets, phase.device), 1.0)
    return (cycle / (1.0 - duty)).clamp(max=1.0)


def rise(phase: Tensor, duty: float, offsets: tuple[float, ...], power: float) -> Tensor:
    """:func:`swing_rise` at the phases (n,), (n, F)."""
    progress = _progress(phase, duty, offsets)
    return torch.sin(math.pi * progress.clamp(0.0, 1.0)).clamp(min=0.0) ** power


def _stance(phase: Tensor, duty: float, offsets: tuple[float, ...]) -> Tensor:
    progress = _progress(phase, duty, offsets)
    return (progress <= 0.0) | (progress >= 1.0)
