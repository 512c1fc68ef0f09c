"""Pretended GPU on a machine without one: the tensors that would be there, and operations that mix them with others.

A tensor counts as on the GPU if it was made with an explicit device, out of one that is, or by
:meth:`PretendGpu.put`. A factory without a device, as in ``x + torch.zeros(3)``, then stands out as it would on real
hardware. Neither what the backward pass does inside of autograd is looked at, nor an ``isaac_like`` environment.

Tensors there say that their device is :data:`GPU`, and ``to(GPU)`` takes others there; with ``strict``, naming the
device of tensors on the host makes no tensor there. ``copy_`` goes both ways, as on real hardware.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Memory:
    """Tensors whose memory counts as the GPU's, with their views, their parameters and whatever else shares it."""

    def __init__(self) -> None:
        # A weak reference keeps the address of what it refers to from being used again.
        self._known: dict[int, StorageWeakRef] = {}

    def add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self._known[storage._cdata] = StorageWeakRef(storage)

    def discard(self, tensor: Tensor) -> None:
        self._known.pop(tensor.untyped_storage()._cdata, None)

    def __contains__(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._known


GPU, HOST = torch.device("cpu", 0), torch.device("cpu")
"""Torch tells them apart and has the same memory for both."""


class PretendGpu:
    """``mixed`` has a line for each operation that had tensors of both kinds."""

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.there = Memory()
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
                self.there.add(thing)
                if thing.grad is not None:
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
            self.gpu.there.discard(copy)
            return copy
        if func == Tensor.device.__get__:
            return self._device(args[0])
        if func is Tensor.to:
            return self._to(*args, **(kwargs or {}))
        named = (kwargs or {}).get("device")
        explicit = named is not None and not (self.gpu.strict and torch.device(named) == HOST)
        before, self.gpu.explicit = self.gpu.explicit, explicit
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.gpu.explicit = before

    def _device(self, tensor: Tensor) -> torch.device:
        return GPU if tensor in self.gpu.there else HOST

    def _to(self, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """``Tensor.to``, which may name device and dtype in several ways, also by another tensor."""
        wanted = [self._device(value) if isinstance(value, Tensor) else value for value in (*args, *kwargs.values())]
        device = next((torch.device(value) for value in wanted if isinstance(value, str | torch.device)), None)
        dtypes = [getattr(value, "dtype", value) for value in (*args, *kwargs.values())]
        dtype = next((value for value in dtypes if isinstance(value, torch.dtype)), tensor.dtype)
        found: Tensor = tensor
        if device is not None and device != self._device(tensor):
            found = tensor.clone()
            (self.gpu.there.add if device == GPU else self.gpu.there.discard)(found)
        return found.to(dtype) if dtype != found.dtype else found


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
        copied = func is torch.ops.aten.copy_.default
        if there and here and not copied and torch._C._current_graph_task_id() == -1:
            places = [
                frame
                for frame in traceback.extract_stack()
                if "/gaitway_" in frame.filename or "isaac_like" in frame.filename
            ]
            if "isaac_like" not in places[-1].filename:
                gpu.mixed.append(f"{func} in {places[-1].filename}:{places[-1].lineno}")
        out = func(*args, **(kwargs or {}))
        if (there or gpu.explicit) and not copied:
            for leaf in tree_leaves(out):
                if isinstance(leaf, Tensor):
                    gpu.there.add(leaf)
        return out
