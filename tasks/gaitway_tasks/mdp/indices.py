"""Tensors that terms need at every step: indices of bodies, joints and feet by regular expression, and constants.

Computed once for each robot, expression and device: a list would be copied to the device at every step.
"""

import functools

import torch
from gaitway_files.errors import UserError
from gaitway_files.patterns import matches
from torch import Tensor

from ..world import World


def bodies(world: World, pattern: str) -> Tensor:
    """Indices of the bodies whose whole name matches ``pattern``, int64; refuses a pattern that none matches."""
    return _indices(world.spec.name, "body", world.spec.body_names, pattern, world.device)


def joints(world: World, pattern: str) -> Tensor:
    """Indices of the joints whose whole name matches ``pattern``, int64; refuses a pattern that none matches."""
    return _indices(world.spec.name, "joint", world.spec.joint_names, pattern, world.device)


def of_joints(world: World, values: Tensor, pattern: str) -> Tensor:
    """Columns of ``values`` (N, J) of the joints that match ``pattern``; not copied if all joints match."""
    return values if pattern == ".*" else values.index_select(1, joints(world, pattern))


def feet(world: World, pattern: str) -> Tensor:
    """Indices among the feet of those whose whole name matches ``pattern``, int64; refuses one that none matches."""
    return _indices(world.spec.name, "foot", world.spec.foot_names, pattern, world.device)


@functools.cache
def row(values: tuple[float | tuple[float, ...], ...], device: torch.device) -> Tensor:
    """``values`` as a tensor, kept: a new one at every step costs as much as several terms."""
    return torch.tensor(values, device=device)


@functools.cache
def spans(ranges: tuple[tuple[float, float], ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Lower ends and widths of ``ranges``, each (len(ranges), 1), for uniform draws."""
    low, span = torch.tensor([(low, high - low) for low, high in ranges], device=device).t()
    return low[:, None], span[:, None]


@functools.cache
def _indices(robot: str, kind: str, names: tuple[str, ...], pattern: str, device: torch.device) -> Tensor:
    found = [i for i, name in enumerate(names) if matches(pattern, name)]
    if not found:
        raise UserError(f"robot {robot!r} has no {kind} matching {pattern!r}; it has {', '.join(names)}")
    return torch.tensor(found, device=device)
