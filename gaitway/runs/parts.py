"""State that lies in parts in several processes, in a folder of torch.distributed.checkpoint: any number reads it."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
from gaitway_agents.core import distributed

from ..errors import RunError
from .files import disk_error


def write_parts(parts: dict[str, Any], folder: Path) -> None:
    """Write ``parts`` to ``folder``, which appears whole or not at all; every process calls this."""
    import torch.distributed.checkpoint as dcp

    partial, first = folder.with_name(f"{folder.name}.partial"), distributed.rank() == 0
    try:
        if first:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        distributed.any_of(False, torch.device("cpu"))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is")  # one process alone
            dcp.save(parts, checkpoint_id=partial)
        if first:
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
    except OSError as error:
        raise disk_error(folder, error) from None


def read_parts(parts: dict[str, Any], folder: Path) -> None:
    """Fill ``parts`` from ``folder``; every process calls this. Raises :class:`RunError` where they are not there."""
    import torch.distributed.checkpoint as dcp

    if not folder.is_dir():
        raise RunError(f"{folder} is not there, a part of the checkpoint beside it: put it back, or train anew")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is")
            dcp.load(parts, checkpoint_id=folder)
    except (dcp.CheckpointException, OSError) as error:
        raise RunError(f"{folder} cannot be read, a part of the checkpoint beside it: {error}") from error
