"""Tensors of which every process has a part, as torch.distributed's ``DTensor``, beside those that are whole."""

from __future__ import annotations

import torch
from torch import Tensor


def whole(value: Tensor) -> Tensor:
    """``value``, put together if it lies in parts, which all processes must ask for."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def local(value: Tensor) -> Tensor:
    """The part of ``value`` that this process has."""
    return value.to_local() if hasattr(value, "to_local") else value


@torch.no_grad()
def copy_part_(own: Tensor, value: Tensor) -> None:
    """Copy a whole ``value`` to ``own``, of which this process may have a part."""
    if hasattr(own, "to_local"):
        from torch.distributed.tensor import DTensor, distribute_tensor

        assert isinstance(own, DTensor)
        value = distribute_tensor(value.to(own.device), own.device_mesh, own.placements, src_data_rank=None)
    own.copy_(value)
