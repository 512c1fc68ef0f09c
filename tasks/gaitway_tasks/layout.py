"""Layout of observations: the columns of each term in its group."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from .spec import ObservationGroup, ObservationTerm, Task


def width(task: Task, name: str, term: ObservationTerm) -> int:
    """Numbers of a term in one frame. Raises ``ValueError`` for a term whose declarations do not tell."""
    kind = getattr(term.func, "mirror", None)
    read = getattr(term.func, "signals", ())
    if kind == "planar_twist" and "command" in read:
        return len(task.commands[term.params["command_name"]].ranges())
    if kind == "joints" and "action" in read:
        return task.actions.num(task.robot)
    if kind == "scan":
        return math.prod(task.height_scanners[term.params["sensor"]].shape)
    if kind == "places":
        return 3 * len(task.robot.body_ids(term.params.get("bodies", ".*")))
    known = {"joints": task.robot.num_joints, "scalar": 1, "clock": 2, "vector": 3, "axial": 3, "planar_twist": 3}
    if kind not in known:
        raise UserError(
            f"observation term {name!r} declares no mirror kind, which tells how many numbers it has: "
            "declare it with @reads(..., mirror=...), or leave the term out"
        )
    return known[kind]


def newest_columns(task: Task, group: ObservationGroup) -> dict[str, range]:
    """Columns of each term's newest frame in the group's observation."""
    found, start = {}, 0
    for name, term in group.terms.items():
        size = width(task, name, term)
        end = start + size * group.history_length
        found[name], start = range(end - size, end), end
    return found


def history_order(dims: Sequence[int], history_length: int) -> Tensor:
    """Indices that turn a frame-major history (H, sum(dims)) into Isaac Lab's term-major one."""
    index = torch.arange(history_length * sum(dims)).reshape(history_length, sum(dims))
    return torch.cat([part.flatten() for part in index.split(list(dims), 1)])
