"""Clock of a gait: phases, and what each foot should do at them.

The clock counts from the start of an episode. A foot swings in the first ``1 - duty`` of its own cycle, which begins
``offsets`` cycles before the clock's; a trot has offsets 0 and 0.5 on the diagonals.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from ..world import World
from . import indices


def phase(world: World, period: float) -> Tensor:
    """Share of the current cycle of ``period`` [s] that has passed, in [0, 1), (N,)."""
    steps = round(period / world.step_dt)
    if steps < 2 or abs(steps * world.step_dt - period) > 1e-6:
        raise UserError(f"gait period {period:g} s: it must be two or more whole control steps of {world.step_dt:g} s")
    return torch.remainder(world.episode_step, steps).float() / steps


def is_commanded(world: World, command_name: str, threshold: float) -> Tensor:
    """Mask (N,) of the commands to move: (vx, vy [m/s], yaw rate [rad/s]) is longer than ``threshold``."""
    return world.command(command_name).norm(dim=1) > threshold


def is_stepping(world: World, command_name: str, threshold: float, still: float) -> Tensor:
    """Mask (N,) of the robots whose feet should follow the clock: commanded to move, or still moving.

    ``still`` is the largest horizontal speed [m/s] of a robot that stands.
    """
    commanded = is_commanded(world, command_name, threshold)
    return commanded | (world.robot.root_lin_vel_b[:, :2].norm(dim=1) > still)


def swing_progress(world: World, period: float, duty: float, offsets: Sequence[float]) -> Tensor:
    """Share of each foot's swing that should have passed, in [0, 1]; 0 or 1 while it should stand, (N, F)."""
    cycle = torch.remainder(phase(world, period)[:, None] + indices.row(tuple(offsets), world.device), 1.0)
    return (cycle / (1.0 - duty)).clamp(max=1.0)
