"""Rows of language tasks, and what a source of them offers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Protocol, TypeVar

from gaitway_files.errors import UserError

Row = Mapping[str, Any]
"""One example. Fields by name, those of TRL's datasets: ``prompt`` (text, or messages with ``role`` and ``content``);
``answer``, what verifiers compare with; ``completion``, a demonstration, and ``messages``, all of one with several
answers (``weight`` 0: not learnt); ``chosen`` and ``rejected``, ``margin``, or ``completion`` and ``label`` for
preferences; ``tools``, schemas of tools that the prompt tells of."""

SPLITS = ("train", "test")

Item = TypeVar("Item")


class RowError(UserError):
    """A row lacks what the task needs; the message names file, row number, field and the fix."""


class FieldError(RowError):
    """A record whose fields are not those that they should be, by name."""


class PlacedRow(dict[str, Any]):
    """A row of a file that knows its ``place``, such as "sums.jsonl, row 15"."""

    def __init__(self, row: Row, place: str):
        super().__init__(row)
        self.place = place


def place_of(row: Row, number: int, task: str) -> str:
    """Where a row stands, for messages: its place in its file, or its number from 1 among the rows of a task.

    ``number`` counts from 0.
    """
    return row.place if isinstance(row, PlacedRow) else f"row {number + 1} of {task}"


class Rows(Protocol):
    """Source of examples. Equal settings give equal rows at any time."""

    def rows(self, split: str) -> Sequence[Row]:
        """All rows of the split "train" or "test"; raises ``RowError`` with file and row number for a bad one."""
        ...

    def stream(self, split: str, seed: int) -> Iterator[Row]:
        """Rows without end: fresh ones of a generator, shuffled epochs of a file."""
        ...


def check_split(split: str) -> None:
    """Raise ``ValueError`` unless ``split`` is the name of one."""
    if split not in SPLITS:
        raise UserError(f"split {split!r}: use one of {', '.join(map(repr, SPLITS))}")


def epochs(items: Sequence[Item], seed: int | str) -> Iterator[Item]:
    """All items in an order drawn from the seed, then all again in another order, without end."""
    if not items:
        raise RowError("no rows to draw from: the split is empty")
    for epoch in range(2**62):
        order = list(range(len(items)))
        random.Random(f"{seed}/{epoch}").shuffle(order)
        yield from (items[index] for index in order)


def mixed(parts: Mapping[str, Sequence[Item]], weights: Mapping[str, float], seed: int) -> Iterator[Item]:
    """Items of ``parts`` without end: each draw chooses a part by its weight, and takes the next of that part's epochs.

    Without ``weights`` parts are drawn in proportion to their sizes.
    """
    shares = [float(weights[name] if weights else len(part)) for name, part in parts.items()]
    streams = [epochs(part, f"{seed}/{name}") for name, part in parts.items()]
    rng = random.Random(f"{seed}/mix")
    while True:
        yield next(rng.choices(streams, shares)[0])


def in_turn(parts: Iterable[Sequence[Item]]) -> list[Item]:
    """All items of ``parts``, one of each in turn, so that the first few are of all parts."""
    missing = object()
    return [item for turn in zip_longest(*parts, fillvalue=missing) for item in turn if item is not missing]  # type: ignore[misc]
