"""Token sequences of different lengths as one tensor, and the order in which a fixed set of them is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

import torch
from gaitway_files.errors import UserError
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..core import distributed


def pad(sequences: Sequence[tuple[Tensor, Tensor]], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens (B, L), lengths (B,) and masks (B, L) of sequences of tokens (L,) and masks (L,), padded on the right."""
    lengths = torch.tensor([len(tokens) for tokens, _ in sequences])
    tokens = pad_sequence([tokens for tokens, _ in sequences], batch_first=True)
    mask = pad_sequence([mask.to(torch.get_default_dtype()) for _, mask in sequences], batch_first=True)
    return tokens.to(device), lengths.to(device), mask.to(device)


class Order(Protocol):
    """Numbers of examples in the order in which they are read."""

    length: int
    """Number of examples."""
    position: int
    """Numbers taken so far, all that the rest depends on."""

    def take(self, count: int) -> list[int]: ...


def taken(order: Order, count: int) -> list[int]:
    """The next ``count`` numbers for this process, of as many that each of several processes takes."""
    rank = distributed.rank()
    return order.take(count * distributed.size())[rank * count : (rank + 1) * count]


class DrawnOrder:
    """Numbers of an iterator without end, which ``draws`` begins anew, for ``length`` examples."""

    def __init__(self, draws: Callable[[], Iterator[int]], length: int):
        self.draws, self.length = draws, length
        self.position = 0
        self._at, self._numbers = 0, draws()

    def take(self, count: int) -> list[int]:
        """The next ``count`` numbers."""
        if self._at != self.position:
            self._numbers = islice(self.draws(), self.position, None)
        self.position = self._at = self.position + count
        return list(islice(self._numbers, count))


class EpochOrder:
    """Numbers below ``length``, each once an epoch, in an order that seed and epoch alone decide."""

    def __init__(self, length: int, seed: int):
        if length < 1:
            raise UserError("there is nothing to learn from: the data has no rows")
        self.length, self.seed = length, seed
        self.position = 0
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.long)

    def take(self, count: int) -> list[int]:
        """The next ``count`` numbers; an epoch's rest and the next one's start may come together."""
        taken: list[int] = []
        while len(taken) < count:
            epoch, offset = divmod(self.position, self.length)
            if epoch != self._epoch:
                generator = torch.Generator().manual_seed((self.seed << 20) + epoch)
                self._epoch, self._order = epoch, torch.randperm(self.length, generator=generator)
            part = self._order[offset : offset + count - len(taken)].tolist()
            taken += part
            self.position += len(part)
        return taken
