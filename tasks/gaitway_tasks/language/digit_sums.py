"""Sums of many digits modulo ten: hopeless at a glance, easy as running sums, which few demonstrations write down."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated

from gaitway_files.ranges import PositiveInt, Range, Share

from .answers import ANSWER, END_ANSWER, TAGS, with_tags
from .generated import GeneratedSource, belongs
from .rows import Row


@dataclass(frozen=True, kw_only=True)
class DigitSumSource(GeneratedSource):
    """Digits whose sum modulo ten is asked for; demonstrations answer at once, or write the running sums first:

    | 3 4 2 4 4
    | <answer> 7 </answer>
    | <think> 3 7 9 3 7 </think> <answer> 7 </answer>

    Every answer of a demonstration is right. ``rows("train")`` are a fixed set of demonstrations, ``stream("train",
    seed)`` new problems without end, ``rows("test")`` the same whatever the seed; no test problem occurs elsewhere.
    A rare chain of thought that rewards make the rule is the setting of Tsilivis et al. (2025, arXiv 2510.11495).
    """

    largest: Annotated[int, Range(lambda digit: 1 <= digit <= 9, "must lie between 1 and 9")] = 4
    """Largest digit. With 9 neither the sum before nor the digit alone tells anything of the next sum, and running
    sums are much harder to learn."""
    digits: PositiveInt = 16
    """Digits of a problem; with few of them hardly any problem is new."""
    thoughtful: Share = 0.05
    """Share of the demonstrations that write running sums, typically 0.01 to 0.2."""

    def vocabulary(self) -> list[str]:
        """Every word of a prompt or demonstration."""
        return [*TAGS, *map(str, range(10))]

    def problems(self, split: str, seed: str) -> Iterator[Row]:
        rng = random.Random(f"gaitway digit sums/{seed}")
        while True:
            digits = [rng.randint(0, self.largest) for _ in range(self.digits)]
            thoughtful = rng.random() < self.thoughtful
            prompt = " ".join(map(str, digits))
            if not belongs(prompt, split):
                continue
            sums = list(accumulate(digits, lambda total, digit: (total + digit) % 10))
            answer = str(sums[-1])
            completion = (
                with_tags(" ".join(map(str, sums)), answer) if thoughtful else f"{ANSWER} {answer} {END_ANSWER}"
            )
            yield {"prompt": prompt, "answer": answer, "completion": completion}
