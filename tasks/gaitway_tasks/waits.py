"""Waits of the host for the device: how a step gets by with one.

A GPU works off what it is told while Python goes on. Every number that Python needs, such as how many episodes ended,
stops both. Terms must not ask for one: no ``if tensor.any()``, ``float(tensor)``, ``tensor[mask]`` or ``nonzero``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def on_host(tensor: Tensor) -> bool:
    """True if reading ``tensor`` waits for nothing."""
    return tensor.device.type == "cpu"


def rows_of(masks: Sequence[Tensor]) -> list[Tensor]:
    """Indices of the true rows of each of ``masks`` (N,), by one wait for their device."""
    if on_host(masks[0]):
        return [mask.nonzero().flatten() for mask in masks]
    device = masks[0].device
    return [mask.nonzero().flatten().to(device, non_blocking=True) for mask in torch.stack(list(masks)).cpu()]


def logged(values: Tensor) -> list[Any]:
    """Numbers of ``values`` (K,) for a log: scalars on their device, which nobody waits for before they are shown."""
    return values.tolist() if on_host(values) else list(values.unbind())
