"""Weights that two processes see: named tensors in memory that both have mapped."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from weakref import WeakValueDictionary

import torch
from gaitway_files.errors import UserError
from torch import Tensor

ALIGNMENT = 64
MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class _Place:
    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    offset: int

    @property
    def size(self) -> int:
        size: int = torch.Size(self.shape).numel() * self.dtype.itemsize
        return size


class SharedWeights:
    """``slots`` versions of a model's weights. Pickling one gives the other process the same memory.

    Names that share a tensor, as tied embeddings do, share their place.
    """

    def __init__(self, path: Path, places: Sequence[_Place], slots: int):
        self.path, self.places, self.slots = path, tuple(places), slots
        self._stride = max((place.offset + _aligned(place.size) for place in places), default=0)
        self._memory = torch.from_file(str(path), shared=True, size=self._stride * slots, dtype=torch.uint8)

    @classmethod
    def like(cls, parameters: Iterable[tuple[str, Tensor]], slots: int) -> Self:
        """Memory for ``parameters``; :class:`MemoryError` if neither shared memory nor the disk has room for it."""
        places: list[_Place] = []
        # Of a tensor that was made for its turn alone, the next one may have the address.
        known: WeakValueDictionary[tuple[Any, ...], Tensor] = WeakValueDictionary()
        offsets: dict[tuple[Any, ...], int] = {}
        end = 0
        for name, value in parameters:
            same = (value.device, value.data_ptr(), value.shape, value.dtype, value.stride())
            if same not in known:
                known[same], offsets[same] = value, end
            place = _Place(name, tuple(value.shape), value.dtype, offsets[same])
            places.append(place)
            if place.offset == end:
                end += _aligned(place.size)
        return cls(_file(end * slots), places, slots)

    def write(self, slot: int, parameters: Iterable[tuple[str, Tensor]]) -> None:
        """Copy weights, those that the memory was made for and in the same order, into a slot."""
        named = list(parameters) if isinstance(parameters, Iterator) else parameters
        for place, (name, value) in zip(self.places, named, strict=True):
            if (name, tuple(value.shape), value.dtype) != (place.name, place.shape, place.dtype):
                raise UserError(
                    f"weight {name} of shape {tuple(value.shape)}: {place.name} of shape {place.shape} was expected"
                )
        written = set()
        for place, (_, value) in zip(self.places, named, strict=True):
            if place.offset not in written:
                self._view(slot, place).copy_(value.detach())
                written.add(place.offset)

    def read(self, slot: int) -> Iterator[tuple[str, Tensor]]:
        """Views of a slot: they change when it is written to again."""
        for place in self.places:
            yield place.name, self._view(slot, place)

    def unlink(self) -> None:
        """Take the file away; the memory stays until no process has it mapped."""
        self.path.unlink(missing_ok=True)

    def _view(self, slot: int, place: _Place) -> Tensor:
        start = slot * self._stride + place.offset
        return self._memory[start : start + place.size].view(place.dtype).view(place.shape)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.places, self.slots)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _file(size: int) -> Path:
    """A file of ``size`` bytes in memory, or on the disk where a container has little of that."""
    for folder in (MEMORY, Path(tempfile.gettempdir())):
        if folder.is_dir() and shutil.disk_usage(folder).free > size:
            handle, name = tempfile.mkstemp(prefix="weights-", dir=folder)
            os.ftruncate(handle, size)
            os.close(handle)
            return Path(name)
    raise MemoryError(f"no room for {size / 2**30:.1f} GiB of shared weights in {MEMORY} or {tempfile.gettempdir()}")
