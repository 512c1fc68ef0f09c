"""Work of a GPU for operations that run on a CPU here: kernels to launch, and waits of the host."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

WAITING = {
    torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default, torch.ops.aten.masked_select.default,
    torch.ops.aten.is_nonzero.default, torch.ops.aten._unique2.default,
}  # fmt: skip
"""Numbers read by the host, and shapes that depend on data; indexing with masks is another."""
FREE = {
    torch.ops.aten.detach.default, torch.ops.aten.empty.memory_format, torch.ops.aten.new_empty.default,
    torch.ops.aten.empty_like.default, torch.ops.aten._unsafe_view.default, torch.ops.aten.lift_fresh.default,
}  # fmt: skip
"""Operations without a kernel, beside views."""


class GpuWork(TorchDispatchMode):
    """``launches`` counts operations that compute; ``waits`` names those that would make the host wait."""

    def __init__(self) -> None:
        super().__init__()
        self.launches = 0
        self.waits: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        masks = func in (torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default) and any(
            i is not None and i.dtype == torch.bool for i in args[1]
        )
        if masks or func in WAITING:
            self.waits.append(str(func))
        self.launches += not func.is_view and func not in FREE
        return func(*args, **(kwargs or {}))
