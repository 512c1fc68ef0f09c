"""Counting of waits: what Python asks of tensors that would stop a GPU."""

from __future__ import annotations

from collections import Counter

import torch
from torch.overrides import TorchFunctionMode

ASKS = {
    "__bool__", "__float__", "__int__", "__index__", "__contains__", "item", "tolist", "numpy", "cpu", "nonzero",
    "equal", "allclose", "is_nonzero", "masked_select", "argwhere", "unique", "unique_consecutive",
}  # fmt: skip


class Waits(TorchFunctionMode):
    """Counter of the calls by which Python would wait for the device of a tensor, in :attr:`found`."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in ASKS or (name == "where" and len(args) == 1):
            self.found[name] += 1
        if name in ("__getitem__", "__setitem__"):
            places = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(place, torch.Tensor) and place.dtype == torch.bool for place in places):
                self.found[f"{name} by a mask"] += 1
        return func(*args, **(kwargs or {}))
