"""Weights on the wire: the safetensors format, written a tensor at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch
from safetensors import safe_open
from torch import Tensor

NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}


class WeightStream:
    """``parameters`` in ``dtype`` as the bytes of a safetensors file; ``len()`` is their number.

    No more than one tensor is in memory beside the model, unless ``parameters`` can be gone through only once: their
    names and shapes come first. Of tied tensors only the first is written.
    """

    def __init__(self, parameters: Iterable[tuple[str, Tensor]], dtype: torch.dtype):
        self.dtype = dtype
        self._parameters = list(parameters) if isinstance(parameters, Iterator) else parameters
        # Of a tensor that was made for its turn alone, the next one may have the address.
        seen: WeakValueDictionary[tuple[int, torch.Size], Tensor] = WeakValueDictionary()
        header: dict[str, dict[str, Any]] = {}
        end = 0
        for name, tensor in self._parameters:
            if (tensor.data_ptr(), tensor.shape) in seen:
                continue
            seen[tensor.data_ptr(), tensor.shape] = tensor
            begin, end = end, end + tensor.numel() * dtype.itemsize
            header[name] = {"dtype": NAMES[dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
        self.layout = [(name, about["shape"]) for name, about in header.items()]
        """Name and shape of each tensor that is written."""
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self._head = len(text).to_bytes(8, "little") + text
        self._length = len(self._head) + end

    def __len__(self) -> int:
        return self._length

    def tensors(self) -> Iterator[Tensor]:
        written = {name for name, _ in self.layout}
        return (tensor for name, tensor in self._parameters if name in written)

    def __iter__(self) -> Iterator[bytes | memoryview]:
        yield self._head
        for tensor in self.tensors():
            flat = tensor.detach().reshape(-1).to("cpu", self.dtype).contiguous()
            yield flat.view(torch.uint8).numpy().data


def tensors_of(path: Path) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a safetensors file, read as they are asked for."""
    with safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 - it is no mapping
            yield name, file.get_tensor(name)
