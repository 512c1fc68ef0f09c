"""Storage of one observation in a replay buffer: whole, or as the frames that image stacks share."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor


class Whole:
    """The observations at the beginning and at the end of every transition, as they are."""

    kind: ClassVar[str] = "whole"

    def __init__(self, example: Tensor, size: int):
        self.values = example.new_zeros(2, size, *example.shape[1:])

    def put(self, slot: int, observation: Tensor, following: Tensor, fresh: Tensor) -> None:
        """One step of all environments, (N, ...); ``fresh`` (N,) is True where it is the first of an episode."""
        n = len(observation)
        self.values[0, slot * n : (slot + 1) * n] = observation
        self.values[1, slot * n : (slot + 1) * n] = following

    def get(self, rows: Tensor) -> Tensor:
        return self.values[0].index_select(0, rows)

    def get_next(self, rows: Tensor) -> Tensor:
        return self.values[1].index_select(0, rows)

    def has_lost(self, slot: int) -> bool:
        """True if parts of a slot have been overwritten."""
        return False

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def state_dict(self, used: int) -> dict[str, Any]:
        return {"values": self.values[:, :used].clone()}

    @classmethod
    def load(cls, state: dict[str, Any], size: int) -> Whole:
        values = state["values"]
        column = cls(values[0, :0], size)
        column.values[:, : values.shape[1]] = values
        return column


class Frames:
    """Byte images (C, H, W) whose channels are consecutive frames: each frame is kept once, in a ring.

    A transition keeps the numbers of the frames that make up its two stacks. Frame i lies at ``i % len(frames)``, and
    frame 0 is blank. A step adds one frame; the beginning of an episode, unless what is seen there was also the end of
    the one before (as when a life is lost), and any stack that does not continue the one before it add a whole stack.
    So stacks are always rebuilt bit for bit; where few frames are shared the ring is used up before the buffer is
    full, and the oldest transitions are forgotten early.
    """

    kind: ClassVar[str] = "frames"

    def __init__(self, example: Tensor, size: int, ring: int):
        """``example`` (N, C, H, W); ``size`` transitions share ``ring`` frames."""
        n, self.channels, *shape = example.shape
        self.frames = torch.zeros(ring, *shape, dtype=torch.uint8)
        self.numbers = torch.zeros(2, size, self.channels, dtype=torch.int64)
        self.current = torch.zeros(n, self.channels, dtype=torch.int64)
        self.added = 1

    def put(self, slot: int, observation: Tensor, following: Tensor, fresh: Tensor) -> None:
        n = len(observation)
        if bool(fresh.any()):
            rows = fresh.nonzero()[:, 0]
            rows = rows[(self._stacks(self.current[rows]) != observation[rows]).flatten(1).any(1)]
            self.current[rows] = self._add_stacks(observation[rows])
        continues = is_continued(observation, following)
        if bool(continues.all()):
            numbers = torch.cat((self.current[:, 1:], self._add(following[:, -1])[:, None]), 1)
        else:
            numbers = torch.empty_like(self.current)
            numbers[continues, :-1] = self.current[continues, 1:]
            numbers[continues, -1] = self._add(following[continues, -1])
            numbers[~continues] = self._add_stacks(following[~continues])
        self.numbers[0, slot * n : (slot + 1) * n] = self.current
        self.numbers[1, slot * n : (slot + 1) * n] = numbers
        self.current = numbers

    def _add(self, frames: Tensor) -> Tensor:
        """Numbers (K,) of new frames (K, H, W)."""
        numbers = torch.arange(self.added, self.added + len(frames))
        self.frames[numbers % len(self.frames)] = frames
        self.added += len(frames)
        return numbers

    def _add_stacks(self, stacks: Tensor) -> Tensor:
        return self._add(stacks.flatten(0, 1)).view(-1, self.channels)

    def get(self, rows: Tensor) -> Tensor:
        return self._stacks(self.numbers[0].index_select(0, rows))

    def get_next(self, rows: Tensor) -> Tensor:
        return self._stacks(self.numbers[1].index_select(0, rows))

    def _stacks(self, numbers: Tensor) -> Tensor:
        frames = self.frames.index_select(0, (numbers % len(self.frames)).flatten())
        return frames.view(*numbers.shape, *self.frames.shape[1:])

    def has_lost(self, slot: int) -> bool:
        n = len(self.current)
        return int(self.numbers[0, slot * n : (slot + 1) * n].min()) < self.added - len(self.frames)

    @property
    def nbytes(self) -> int:
        return self.frames.nbytes + self.numbers.nbytes

    def state_dict(self, used: int) -> dict[str, Any]:
        return {
            "frames": self.frames[: self.added].clone(),
            "numbers": self.numbers[:, :used].clone(),
            "current": self.current.clone(),
            "added": self.added,
            "ring": len(self.frames),
        }

    @classmethod
    def load(cls, state: dict[str, Any], size: int) -> Frames:
        frames, numbers, current = state["frames"], state["numbers"], state["current"]
        column = cls(frames.new_empty(*current.shape, *frames.shape[1:]), size, state["ring"])
        column.frames[: len(frames)] = frames
        column.numbers[:, : numbers.shape[1]] = numbers
        column.current, column.added = current.clone(), state["added"]
        return column


Column = Whole | Frames
COLUMNS: dict[str, type[Whole] | type[Frames]] = {"whole": Whole, "frames": Frames}


def is_continued(stacks: Tensor, following: Tensor) -> Tensor:
    """Mask (N,) of the stacks (N, C, H, W) whose following stack is the same one, moved on by one frame."""
    return (stacks[:, 1:] == following[:, :-1]).flatten(1).all(1)


def make_column(observation: Tensor, following: Tensor, slots: int) -> Column:
    """The thriftiest column for observations (N, ...), judged by the first step of the environments."""
    n = len(observation)
    if observation.dtype != torch.uint8 or observation.dim() != 4:
        return Whole(observation, slots * n)
    channels = observation.shape[1]
    per_step = 1 if bool(is_continued(observation, following).all()) else channels
    # A sixteenth more for the whole stacks with which episodes begin.
    return Frames(observation, slots * n, slots * n * per_step * 17 // 16 + 4 * n * channels)
