"""The mirror group of a task as signed permutations, derived from the robot's declared mirrors."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from .managers import history_order
from .robots import Mirror, Robot
from .spec import ObservationGroup, Task

SignedPermutation = tuple[Tensor, Tensor]
"""Permutation (D,) and signs (D,): x -> sign * x[perm]."""

_SIGNS = {
    "vector": {"x": (-1.0, 1.0, 1.0), "y": (1.0, -1.0, 1.0)},
    "axial": {"x": (1.0, -1.0, -1.0), "y": (-1.0, 1.0, -1.0)},
    "planar_twist": {"x": (-1.0, 1.0, -1.0), "y": (1.0, -1.0, -1.0)},
}


@dataclass(frozen=True, kw_only=True)
class MirrorGroup:
    """All products of the robot's mirrors; element g applies mirror i where bit i of g is set.

    ``observations[name]`` and ``actions`` are stacked (G, D) permutations and signs. ``selectors`` are, for each
    mirror, the column of the policy observation that holds the newest commanded velocity along the axis it
    reverses, so that the sign of the command picks the canonical element. ``tie_breaker`` is the column of the newest
    commanded yaw rate, which every mirror reverses: it decides for commands without a velocity along the axis, so that
    turning left on the spot is the mirror image of turning right.
    """

    observations: dict[str, SignedPermutation]
    actions: SignedPermutation
    selectors: tuple[int, ...]
    tie_breaker: int


def joint_mirror(robot: Robot, mirror: Mirror) -> SignedPermutation:
    """How ``mirror`` acts on values in canonical joint order."""
    swap = {**mirror.pairs, **{b: a for a, b in mirror.pairs.items()}}
    perm, sign = [], []
    for name in robot.joint_names:
        prefix = next((p for p in swap if name.startswith(p)), None)
        image = name if prefix is None else swap[prefix] + name[len(prefix) :]
        if image not in robot.joint_names:
            raise ValueError(f"mirror of joint {name!r} is {image!r}, which robot {robot.name!r} does not have")
        perm.append(robot.joint_names.index(image))
        sign.append(-1.0 if name.endswith(mirror.flip) else 1.0)
    return torch.tensor(perm), torch.tensor(sign)


def mirror_group(task: Task) -> MirrorGroup:
    """The group of ``task``; raises if the robot declares no mirror or a term has no mirror kind."""
    robot = task.robot
    if not robot.mirrors:
        raise ValueError(f"robot {robot.name!r} declares no mirrors: train with symmetry 'none'")
    mirrors = list(robot.mirrors.values())
    twist = _newest_twist(task)
    return MirrorGroup(
        observations={
            name: _stack([_group_mirror(task, group, mirror) for mirror in mirrors])
            for name, group in task.observations.items()
        },
        actions=_stack([joint_mirror(robot, mirror) for mirror in mirrors]),
        selectors=tuple(twist + {"x": 0, "y": 1}[mirror.axis] for mirror in mirrors),
        tie_breaker=twist + 2,
    )


def compose(first: SignedPermutation, second: SignedPermutation) -> SignedPermutation:
    """The map that applies ``first`` and then ``second``."""
    return first[0][second[0]], second[1] * first[1][second[0]]


def _group_mirror(task: Task, group: ObservationGroup, mirror: Mirror) -> SignedPermutation:
    perms: list[Tensor] = []
    signs: list[Tensor] = []
    dims: list[int] = []
    for name, term in group.terms.items():
        kind = getattr(term.func, "mirror", None)
        if kind is None:
            raise ValueError(f"observation term {name!r} declares no mirror kind: train with symmetry 'none'")
        if kind == "joints":
            perm, sign = joint_mirror(task.robot, mirror)
        elif kind == "scalar":
            perm, sign = torch.arange(1), torch.ones(1)
        elif kind == "clock":
            perm, sign = torch.arange(2), -torch.ones(2)
        else:
            perm, sign = torch.arange(3), torch.tensor(_SIGNS[kind][mirror.axis])
        perms.append(perm + sum(dims))
        signs.append(sign)
        dims.append(len(perm))
    frame_perm, frame_sign = torch.cat(perms), torch.cat(signs)
    length, frame = group.history_length, sum(dims)
    order = history_order(dims, length)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    # In frame-major coordinates every frame is mirrored alike; ``order`` carries that to the term-major layout.
    source = (torch.arange(length)[:, None] * frame + frame_perm).flatten()
    return place[source[order]], frame_sign.repeat(length)[order]


def _newest_twist(task: Task) -> int:
    """Column of the policy observation at which the newest velocity command (vx, vy, yaw rate) starts."""
    group, start = task.observations["policy"], 0
    for term in group.terms.values():
        kind = getattr(term.func, "mirror", None)
        width = {"joints": task.robot.num_joints, "scalar": 1, "clock": 2}.get(str(kind), 3)
        if kind == "planar_twist":
            return start + (group.history_length - 1) * width
        start += width * group.history_length
    raise ValueError(f"task {task.name!r}: the policy reads no velocity command to choose a canonical mirror image by")


def _stack(generators: list[SignedPermutation]) -> SignedPermutation:
    dim = len(generators[0][0])
    elements = []
    for bits in itertools.product((0, 1), repeat=len(generators)):
        element = (torch.arange(dim), torch.ones(dim))
        for bit, generator in zip(reversed(bits), generators, strict=True):
            if bit:
                element = compose(element, generator)
        elements.append(element)
    return torch.stack([e[0] for e in elements]), torch.stack([e[1] for e in elements])
