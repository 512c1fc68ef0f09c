"""Weights on the wire: the safetensors format, written a tensor at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}


class WeightStream:
    """``parameters`` in ``dtype`` as the bytes of a safetensors file; ``len()`` is their number.

    No more than one tensor is in memory beside the model. Of tied tensors only the first is written.
    """

    def __init__(self, parameters: Iterable[tuple[str, Tensor]], dtype: torch.dtype):
        self.dtype = dtype
        self.tensors: dict[str, Tensor] = {}
        seen: set[tuple[int, torch.Size]] = set()
        header, end = {}, 0
        for name, tensor in parameters:
            if (tensor.data_ptr(), tensor.shape) in seen:
                continue
            seen.add((tensor.data_ptr(), tensor.shape))
            self.tensors[name] = tensor
            begin, end = end, end + tensor.numel() * dtype.itemsize
            header[name] = {"dtype": NAMES[dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self._head = len(text).to_bytes(8, "little") + text
        self._length = len(self._head) + end

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[bytes | memoryview]:
        yield self._head
        for tensor in self.tensors.values():
            flat = tensor.detach().reshape(-1).to("cpu", self.dtype).contiguous()
            yield flat.view(torch.uint8).numpy().data


def tensors_of(path: Path) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a safetensors file, read as they are asked for."""
    with safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 - it is no mapping
            yield name, file.get_tensor(name)
