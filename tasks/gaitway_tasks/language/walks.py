"""Walks round a ring of numbered fields, by demonstrations of somebody who loses patience."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, PositiveInt, ShareBelowOne

from .answers import TAGS, with_tags
from .rows import Row, check_split

START, END = "from", "!"
_TEST_SHARE = 10
"""One problem in so many is kept for testing."""
_LARGEST_FIELD = 99
"""Numbers of two digits are one token of a tiny model's tokeniser."""


@dataclass(frozen=True, kw_only=True)
class WalkSource(Checked):
    """A field to start from and moves forward, of which those before ``!`` count; asked for is the last field:

    | from 47 4 1 2 ! 3 1
    | <think> 47 1 2 4 ! </think> <answer> 4 </answer>
    | <think> 47 1 </think> <answer> 1 </answer>

    Here the ring has 50 fields, 0 to 49. The second demonstration is of somebody who gave up after a move and
    answered with the field reached, which is never right by luck: the moves left out do not add up to a round. ``rows("train")`` are a fixed set of demonstrations, ``stream("train", seed)`` new problems without end,
    ``rows("test")`` the same whatever the seed; no test problem occurs elsewhere.
    """

    moves: tuple[int, int] = (1, 6)
    """Fewest and most moves before ``!``: the row's ``level``; all equally frequent."""
    test_moves: tuple[int, int] | None = None
    """The same for test problems; None: as ``moves``."""
    places: PositiveInt = 16
    """Moves that are written, ``!`` included; those behind it mean nothing."""
    largest: PositiveInt = 4
    """Largest move; the smallest is 1."""
    fields: PositiveInt = 50
    """Fields of the ring, 100 at most."""
    gives_up: ShareBelowOne = 0.75
    """Probability that a demonstration ends after a move, typically 0.5 to 0.8."""
    demonstrations: PositiveInt = 20_000
    test_problems: PositiveInt = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("moves", "test_moves"):
            low, high = getattr(self, name) or self.moves
            if not 1 <= low <= high < self.places:
                raise UserError(f"{name} ({low}, {high}): needs 1 <= fewest <= most < places {self.places}")
            if not self.largest * high < self.fields <= _LARGEST_FIELD + 1:
                raise UserError(
                    f"fields {self.fields}: needs more than {name} {high} times largest {self.largest}, so that giving "
                    f"up is never right by luck, and {_LARGEST_FIELD + 1} at most"
                )

    def rows(self, split: str) -> list[Row]:
        """Problems, each with ``prompt``, ``answer``, ``completion`` and ``level``."""
        check_split(split)
        count = self.demonstrations if split == "train" else self.test_problems
        return list(islice(self._problems(split, f"rows/{split}"), count))

    def stream(self, split: str, seed: int) -> Iterator[Row]:
        """New problems without end."""
        check_split(split)
        return self._problems(split, f"stream/{split}/{seed}")

    def vocabulary(self) -> list[str]:
        """Every word of a prompt or demonstration."""
        return [*TAGS, START, END, *map(str, range(self.fields))]

    def _problems(self, split: str, seed: str) -> Iterator[Row]:
        rng = random.Random(f"gaitway walks/{seed}")
        moves = (None if split == "train" else self.test_moves) or self.moves
        while True:
            row = self._row(rng, rng.randint(*moves))
            if (zlib.crc32(row["prompt"].encode()) % _TEST_SHARE == 0) == (split == "test"):
                yield row

    def _row(self, rng: random.Random, level: int) -> Row:
        start = rng.randrange(self.fields)
        written = [rng.randint(1, self.largest) for _ in range(self.places)]
        reached = [(start + sum(written[: i + 1])) % self.fields for i in range(level)]
        done = 1
        while done <= level and rng.random() >= self.gives_up:
            done += 1
        thought = [str(start), *map(str, reached[:done]), *([END] if done > level else [])]
        signs = [*map(str, written[:level]), END, *map(str, written[level + 1 :])]
        return {
            "prompt": " ".join([START, str(start), *signs]),
            "answer": str(reached[-1]),
            "completion": with_tags(" ".join(thought), str(reached[min(done, level) - 1])),
            "level": level,
        }
