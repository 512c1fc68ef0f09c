"""Sources that generate problems: a fixed set of demonstrations, new problems without end, and others for tests."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from gaitway_files.ranges import Checked, PositiveInt

from .rows import Row, check_split

_TEST_SHARE = 10
"""One problem in so many is kept for testing."""


@dataclass(frozen=True, kw_only=True)
class GeneratedSource(Checked):
    """Problems drawn from a seed by :meth:`problems`, which is all that a source of its own needs to define."""

    demonstrations: PositiveInt = 20_000
    test_problems: PositiveInt = 1000

    @abstractmethod
    def problems(self, split: str, seed: str) -> Iterator[Row]:
        """Problems of a split without end, the same for the same seed."""

    def rows(self, split: str) -> list[Row]:
        """The fixed problems of a split, each with ``prompt``, ``answer`` and ``completion``."""
        check_split(split)
        count = self.demonstrations if split == "train" else self.test_problems
        return list(islice(self.problems(split, f"rows/{split}"), count))

    def stream(self, split: str, seed: int) -> Iterator[Row]:
        """New problems without end."""
        check_split(split)
        return self.problems(split, f"stream/{split}/{seed}")


def belongs(prompt: str, split: str) -> bool:
    """True if a problem is of this split, which its text alone decides."""
    return (zlib.crc32(prompt.encode()) % _TEST_SHARE == 0) == (split == "test")
