"""Attention in float32 within bfloat16 networks, where that is the faster of the two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

MOST = 2**14
"""Keys times their size up to which float32 is faster; measured with torch 2.13 on cores with AMX, forwards and
backwards: 3 to 7 times at 32 keys, and even at 512 keys of size 32, 256 of 64 and 128 of 128."""


def short_attention(device: torch.device) -> AbstractContextManager[object]:
    """On CPUs under bfloat16 autocast, run ``scaled_dot_product_attention`` of few keys in float32.

    Torch's backward pass for bfloat16 there takes as long for a handful of keys as for hundreds.
    """
    if device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return nullcontext()
    return _ShortAttention()


class _ShortAttention(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func is not functional.scaled_dot_product_attention:
            return func(*args, **named)
        query, key, value, *rest = args
        if key.shape[-2] * key.shape[-1] > MOST:
            return func(*args, **named)
        mask = named.get("attn_mask")
        if isinstance(mask, Tensor) and mask.is_floating_point():
            named = {**named, "attn_mask": mask.float()}
        with torch.autocast("cpu", enabled=False):
            return func(query.float(), key.float(), value.float(), *rest, **named)
