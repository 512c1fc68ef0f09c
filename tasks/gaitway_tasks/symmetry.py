"""The mirror group of a task as signed permutations, derived from the robot's declared mirrors."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from .actions import joint_positions
from .layout import history_order, newest_columns, width
from .robots import Mirror, Robot
from .spec import ObservationGroup, ObservationTerm, Task

SignedPermutation = tuple[Tensor, Tensor]
"""Permutation (D,) and signs (D,): x -> sign * x[perm]."""

SIGNS = {
    "vector": {"x": (-1.0, 1.0, 1.0), "y": (1.0, -1.0, 1.0)},
    "axial": {"x": (1.0, -1.0, -1.0), "y": (-1.0, 1.0, -1.0)},
    "planar_twist": {"x": (-1.0, 1.0, -1.0), "y": (1.0, -1.0, -1.0)},
}


@dataclass(frozen=True, kw_only=True)
class MirrorGroup:
    """All products of the robot's mirrors; element g applies mirror i where bit i of g is set.

    ``observations[name]`` and ``actions`` are stacked (G, D) permutations and signs. ``selectors`` are columns of the
    policy observation whose signs choose the canonical image, in order: the sine of the newest gait phase, if the
    policy reads one that is never 0 while the robot walks, then the newest command. Every mirror shifts a trot by half
    a cycle, so that with a clock each half of a stride is the mirror image of the other and straight commands give
    straight walks.
    """

    observations: dict[str, SignedPermutation]
    actions: SignedPermutation
    selectors: tuple[int, ...]


def joint_mirror(robot: Robot, mirror: Mirror) -> SignedPermutation:
    """Signed permutation of values in canonical joint order by ``mirror``."""
    perm, sign = [], []
    for name in robot.joint_names:
        image = mirror.image(name)
        if image not in robot.joint_names:
            raise UserError(f"mirror of joint {name!r} is {image!r}, which robot {robot.name!r} does not have")
        perm.append(robot.joint_names.index(image))
        sign.append(-1.0 if name.endswith(mirror.flip) else 1.0)
    return torch.tensor(perm), torch.tensor(sign)


def _places_mirror(robot: Robot, mirror: Mirror, pattern: str) -> SignedPermutation:
    """Signed permutation of the places in the base frame of the bodies that match ``pattern``."""
    names = [robot.body_names[i] for i in robot.body_ids(pattern)]
    images = [mirror.image(name) for name in names]
    if missing := [image for image in images if image not in names]:
        raise UserError(f"bodies {pattern!r} of {robot.name!r}: the mirror image {missing[0]!r} is not among them")
    perm = torch.tensor([[3 * names.index(image) + axis for axis in range(3)] for image in images]).flatten()
    return perm, torch.tensor(SIGNS["vector"][mirror.axis]).repeat(len(names))


def mirror_group(task: Task) -> MirrorGroup:
    """The group of ``task``; raises if the robot declares no mirror or a term has no mirror kind."""
    robot = task.robot
    if not robot.mirrors:
        raise UserError(f"robot {robot.name!r} declares no mirrors: train with symmetry 'none'")
    if joint_positions(task).num(robot) != robot.num_joints:
        raise UserError(f"some joints of {robot.name!r} do not act, and mirrors need all: train with symmetry 'none'")
    for name, command in task.commands.items():
        if command.mirror is None:
            raise UserError(f"command {name!r}, a {type(command).__name__}, has no mirror: train with symmetry 'none'")
    mirrors = list(robot.mirrors.values())
    return MirrorGroup(
        observations={
            name: _stack([group_mirror(task, group, mirror) for mirror in mirrors])
            for name, group in task.observations.items()
        },
        actions=_stack([joint_mirror(robot, mirror) for mirror in mirrors]),
        selectors=_selectors(task),
    )


def compose(first: SignedPermutation, second: SignedPermutation) -> SignedPermutation:
    """The map that applies ``first`` and then ``second``."""
    return first[0][second[0]], second[1] * first[1][second[0]]


def group_mirror(task: Task, group: ObservationGroup, mirror: Mirror) -> SignedPermutation:
    """Signed permutation of a group's observation, its history included, by ``mirror``."""
    perms: list[Tensor] = []
    signs: list[Tensor] = []
    dims: list[int] = []
    for name, term in group.terms.items():
        size, kind = width(task, name, term), str(getattr(term.func, "mirror", None))
        if kind == "joints":
            perm, sign = joint_mirror(task.robot, mirror)
        elif kind == "places":
            perm, sign = _places_mirror(task.robot, mirror, term.params.get("bodies", ".*"))
        elif kind == "scan":
            shape = task.height_scanners[term.params["sensor"]].shape
            perm, sign = torch.arange(size).reshape(shape).flip("yx".index(mirror.axis)).flatten(), torch.ones(size)
        else:
            signed = {"scalar": (1.0,), "clock": (-1.0, -1.0)} | {k: row[mirror.axis] for k, row in SIGNS.items()}
            perm, sign = torch.arange(size), torch.tensor(signed[kind])
        perms.append(perm + sum(dims))
        signs.append(sign)
        dims.append(size)
    frame_perm, frame_sign = torch.cat(perms), torch.cat(signs)
    length, frame = group.history_length, sum(dims)
    order = history_order(dims, length)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    # In frame-major coordinates every frame is mirrored alike; ``order`` carries that to the term-major layout.
    source = (torch.arange(length)[:, None] * frame + frame_perm).flatten()
    return place[source[order]], frame_sign.repeat(length)[order]


def _selectors(task: Task) -> tuple[int, ...]:
    group = task.observations["policy"]
    columns = newest_columns(task, group)

    def of_kind(kind: str) -> dict[str, ObservationTerm]:
        return {name: term for name, term in group.terms.items() if getattr(term.func, "mirror", None) == kind}

    twist = [column for name in of_kind("planar_twist") for column in columns[name]][:3]
    if not twist:
        raise UserError(f"task {task.name!r}: the policy reads no velocity command to choose a canonical image by")
    deciding = {name: term for name, term in of_kind("clock").items() if term.params.get("late")}
    for term in deciding.values():
        period, step_dt = term.params["period"], task.timing.step_dt
        if round(period / step_dt) % 2:
            raise UserError(
                f"gait period {period:g} s: it must be an even number of control steps of {step_dt:g} s, since every "
                "mirror shifts the clock by half a cycle: change it, or train with symmetry 'none'"
            )
    return (*(columns[name][0] for name in deciding), *twist)


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
