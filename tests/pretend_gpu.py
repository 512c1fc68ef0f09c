"""Which tensors would be on a GPU, told on a machine that has none, and every operation that mixes them with others.

A tensor counts as on the GPU if it was made with an explicit device, out of one that is, or by
:meth:`PretendGpu.put`. A factory without a device, as in ``x + torch.zeros(3)``, then stands out as it would on real
hardware. Neither what the backward pass does inside of autograd is looked at, nor an ``isaac_like`` environment.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary


class PretendGpu:
    """``mixed`` has a line for each operation that had tensors of both kinds."""

    def __init__(self) -> None:
        self.there = WeakTensorKeyDictionary()
        self.explicit = False
        self.mixed: list[str] = []

    def put(self, *things: Any) -> None:
        """Count all tensors in nested containers, modules and plain objects of ours as being on the GPU."""
        seen: set[int] = set()
        waiting = list(things)
        while waiting:
            thing = waiting.pop()
            if id(thing) in seen:
                continue
            seen.add(id(thing))
            if isinstance(thing, Tensor):
                self.there[thing] = True
                waiting.append(thing.grad)
            elif isinstance(thing, dict):
                waiting += thing.values()
            elif isinstance(thing, list | tuple):
                waiting += thing
            elif isinstance(thing, torch.nn.Module) or type(thing).__module__.startswith(("gaitway", "types", "isaac")):
                waiting += vars(thing).values()

    @contextmanager
    def watching(self) -> Iterator[None]:
        with _Calls(self), _Operations(self):
            yield


class _Calls(TorchFunctionMode):
    def __init__(self, gpu: PretendGpu):
        super().__init__()
        self.gpu = gpu

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.cpu:
            copy = args[0].detach().clone()
            self.gpu.there.pop(copy, None)
            return copy
        before, self.gpu.explicit = self.gpu.explicit, (kwargs or {}).get("device") is not None
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.gpu.explicit = before


class _Operations(TorchDispatchMode):
    def __init__(self, gpu: PretendGpu):
        super().__init__()
        self.gpu = gpu

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        gpu = self.gpu
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        there = any(tensor in gpu.there for tensor in given)
        # A GPU takes single numbers from the host.
        here = any(tensor not in gpu.there and tensor.dim() > 0 for tensor in given)
        if there and here and torch._C._current_graph_task_id() == -1:
            places = [
                frame
                for frame in traceback.extract_stack()
                if "/gaitway_" in frame.filename or "isaac_like" in frame.filename
            ]
            if "isaac_like" not in places[-1].filename:
                gpu.mixed.append(f"{func} in {places[-1].filename}:{places[-1].lineno}")
        out = func(*args, **(kwargs or {}))
        if there or gpu.explicit:
            for leaf in tree_leaves(out):
                if isinstance(leaf, Tensor):
                    gpu.there[leaf] = True
        return out
