"""Termination terms, bool ``(N,)``."""

import torch
from torch import Tensor

from ..world import World


def time_out(world: World) -> Tensor:
    """The episode has reached its length."""
    return world.episode_step >= world.max_episode_length


def illegal_contact(world: World, bodies: str, threshold: float) -> Tensor:
    """A contact force above ``threshold`` [N] on one of ``bodies``."""
    return (world.contact_force_norm(bodies) > threshold).any(1)


def bad_orientation(world: World, limit_angle: float) -> Tensor:
    """Tilt of the base above ``limit_angle`` [rad]."""
    return torch.acos(-world.robot.projected_gravity_b[:, 2].clamp(-1.0, 1.0)).abs() > limit_angle


def root_height_below_minimum(world: World, minimum_height: float) -> Tensor:
    """The base is lower than ``minimum_height`` [m] above the ground."""
    return world.ground.above(world.robot.root_pos_w) < minimum_height


def joint_pos_out_of_limit(world: World) -> Tensor:
    """A joint beyond its soft limit."""
    limits = world.soft_joint_pos_limits
    pos = world.robot.joint_pos
    return ((pos < limits[:, 0]) | (pos > limits[:, 1])).any(1)
