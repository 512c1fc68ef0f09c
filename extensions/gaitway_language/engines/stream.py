"""The safetensors format, written a tensor at a time: weights on the wire and in files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch
from safetensors import safe_open
from torch import Tensor

NAMES = {
    torch.float64: "F64",
    torch.int64: "I64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int16: "I16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Dtypes by their names in the format."""


class WeightStream:
    """``parameters`` in ``dtype`` as the bytes of a safetensors file; ``len()`` is their number.

    No more than one tensor is in memory beside the model, unless ``parameters`` can be gone through only once: their
    names and shapes come first. Of tied tensors only the first is written.
    """

    def __init__(self, parameters: Iterable[tuple[str, Tensor]], dtype: torch.dtype):
        self.dtype = dtype
        self._parameters = list(parameters) if isinstance(parameters, Iterator) else parameters
        written = shapes(self._parameters, dtype)
        self.layout = [(name, list(tensor.shape)) for name, tensor in written.items()]
        """Name and shape of each tensor that is written."""
        self._head, places = head(written)
        self._length = max([len(self._head), *(place.stop for place in places.values())])

    def __len__(self) -> int:
        return self._length

    def tensors(self) -> Iterator[Tensor]:
        written = {name for name, _ in self.layout}
        return (tensor for name, tensor in self._parameters if name in written)

    def __iter__(self) -> Iterator[bytes | memoryview]:
        yield self._head
        for tensor in self.tensors():
            yield content(tensor.to(dtype=self.dtype))


def head(tensors: Mapping[str, Tensor], **metadata: str) -> tuple[bytes, dict[str, slice]]:
    """The beginning of a safetensors file of ``tensors``, and the bytes of the file that are each one's.

    Only shapes and dtypes are read, so ``tensors`` may be on the device ``meta``.
    """
    found: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    data, end = {}, 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.numel() * tensor.dtype.itemsize
        found[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
        data[name] = slice(begin, end)
    text = json.dumps(found, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    beginning = len(text).to_bytes(8, "little") + text
    start = len(beginning)
    return beginning, {name: slice(start + place.start, start + place.stop) for name, place in data.items()}


def content(tensor: Tensor) -> memoryview:
    """The bytes of a tensor, which are copied only from a GPU and of a tensor that is not contiguous."""
    flat = tensor.detach().reshape(-1).to("cpu").contiguous()
    found: memoryview = flat.view(torch.uint8).numpy().data
    return found


def shapes(parameters: Iterable[tuple[str, Tensor]], dtype: torch.dtype | None = None) -> dict[str, Tensor]:
    """The first of tensors that share memory, without their values, in ``dtype``; None: each in its own."""
    found = {}
    # Of a tensor that was made for its turn alone, the next one may have the address.
    seen: WeakValueDictionary[tuple[int, torch.Size], Tensor] = WeakValueDictionary()
    for name, tensor in parameters:
        if (tensor.data_ptr(), tensor.shape) not in seen:
            seen[tensor.data_ptr(), tensor.shape] = tensor
            found[name] = torch.empty(tensor.shape, dtype=dtype or tensor.dtype, device="meta")
        del tensor  # before the next one is made
    return found


def tensors_of(path: Path) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a safetensors file, read as they are asked for."""
    with safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 - it is no mapping
            yield name, file.get_tensor(name)
