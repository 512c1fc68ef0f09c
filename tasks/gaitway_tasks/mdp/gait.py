"""Terms of a clocked gait: a phase in the observation, and feet that follow it.

After ``feet_phase`` of MuJoCo Playground, and ``gait_phase`` and ``feet_gait`` of unitree_rl_lab.

The clock counts from the start of an episode. A foot swings in the first ``1 - duty`` of its own cycle, which begins
``offsets`` cycles before the clock's; a trot has offsets 0 and 0.5 on the diagonals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..signals import observes, reads
from ..world import World
from . import indices


def phase(world: World, period: float) -> Tensor:
    """Share of the current cycle of ``period`` [s] that has passed, in [0, 1), (N,)."""
    steps = round(period / world.step_dt)
    if steps < 2 or abs(steps * world.step_dt - period) > 1e-6:
        raise ValueError(f"gait period {period:g} s: it must be two or more whole control steps of {world.step_dt:g} s")
    return torch.remainder(world.episode_step, steps).float() / steps


def is_commanded(world: World, command_name: str, threshold: float) -> Tensor:
    """Whether the command (vx, vy [m/s], yaw rate [rad/s]) is longer than ``threshold``, (N,)."""
    return world.command(command_name).norm(dim=1) > threshold


@observes
def gait_phase(world: World, period: float, command_name: str, threshold: float = 0.1) -> Tensor:
    """Sine and cosine of the phase, both zero for a command to stand still, (N, 2)."""
    angle = 2.0 * math.pi * phase(world, period)
    clock = torch.stack((angle.sin(), angle.cos()), 1)
    return clock * is_commanded(world, command_name, threshold)[:, None]


def swing_progress(world: World, period: float, duty: float, offsets: Sequence[float]) -> Tensor:
    """Share of each foot's swing that should have passed, in [0, 1]; 0 or 1 while it should stand, (N, F)."""
    cycle = torch.remainder(phase(world, period)[:, None] + torch.tensor(offsets, device=world.device), 1.0)
    return (cycle / (1.0 - duty)).clamp(max=1.0)


@reads("body_pos_w")
def feet_phase(
    world: World,
    feet: str,
    period: float,
    duty: float,
    offsets: tuple[float, ...],
    height: float,
    std: float,
    command_name: str,
    threshold: float = 0.1,
    free_speed: float = math.inf,
) -> Tensor:
    """exp(-sum((z - z_ref)^2) / std^2) over the heights z [m] of the soles, which are to follow the clock.

    ``z_ref`` rises smoothly to ``height`` [m] in the middle of each swing and is 0 otherwise, or all the time for a
    command to stand still. A robot that is told to stand and is faster than ``free_speed`` [m/s] may step as it
    likes: the term is then 1.
    """
    sole = world.robot.body_pos_w[:, indices.bodies(world, feet), 2] - world.spec.foot_height
    progress = swing_progress(world, period, duty, offsets)
    wanted = height * (0.5 - 0.5 * torch.cos(2.0 * math.pi * progress))
    commanded = is_commanded(world, command_name, threshold)
    followed = torch.exp(-(sole - wanted * commanded[:, None]).square().sum(1) / std**2)
    stopping = ~commanded & (world.robot.root_lin_vel_b[:, :2].norm(dim=1) > free_speed)
    return followed.masked_fill(stopping, 1.0)


def feet_gait(
    world: World,
    feet: str,
    period: float,
    duty: float,
    offsets: tuple[float, ...],
    command_name: str,
    threshold: float = 0.1,
) -> Tensor:
    """Share of the feet whose contact (force above 1 N) is as the clock says."""
    contact = world.contact_force_norm(feet) > 1.0
    progress = swing_progress(world, period, duty, offsets)
    stance = (progress <= 0.0) | (progress >= 1.0) | ~is_commanded(world, command_name, threshold)[:, None]
    return (contact == stance).float().mean(1)
