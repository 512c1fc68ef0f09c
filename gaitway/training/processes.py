"""One training in several processes of ``torchrun``: each has environments, the first keeps the records."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from gaitway_files.errors import UserError

T = TypeVar("T")
TORCHRUN = "torchrun --nproc_per_node=N --no-python gaitway train TASK --distributed"


def check(distributed: bool) -> None:
    """Raise unless the processes are what ``--distributed`` says: several of torchrun's, or this one alone."""
    size = int(os.environ.get("WORLD_SIZE", 1))
    if distributed and "RANK" not in os.environ:
        raise UserError(f"--distributed is for processes that torchrun starts: {TORCHRUN}")
    if not distributed and size > 1:
        raise UserError(f"{size} processes would train the same run, each alone: add --distributed ({TORCHRUN})")


@contextmanager
def group(distributed: bool) -> Iterator[None]:
    """Within the block the processes know each other. Tensors on a GPU travel by NCCL, all else by gloo."""
    if not distributed:
        yield
        return
    import torch
    import torch.distributed as dist

    # Its functions have the group of the moment of their import as a default. Optimizers import it in their first step,
    # and a group that a default keeps ends with the interpreter, which its running threads may abort.
    import torch.distributed.nn.functional

    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def of_first(value: T) -> T:
    """Value of ``value`` in the first process."""
    import torch
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return value
    box = [value]
    dist.broadcast_object_list(box, 0, device=torch.device("cpu"))
    return box[0]
