"""Arrows to follow to their end, by demonstrators who give up early; test problems are deeper than all others."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from string import ascii_lowercase
from typing import Annotated

from gaitway_files.errors import UserError
from gaitway_files.ranges import PositiveInt, Range, Share

from .answers import TAGS, with_tags
from .generated import GeneratedSource, belongs
from .rows import Row

_OFF = 3
"""Fewest names off the way."""
_LAST = 0.5
"""Share of the names off the way at which arrows end."""


@dataclass(frozen=True, kw_only=True)
class ArrowSource(GeneratedSource):
    """Shuffled arrows, of which a place and so many hops lead to an end, where an arrow points at itself:

    | ca bd ee dd ab from c
    | <think> c a b d </think> <answer> d </answer>

    The word ``ca`` is an arrow from ``c`` to ``a``; each place has one, and no two others point at the same place.
    A demonstration writes where it is hop by hop, gives up after any hop but the last with probability ``impatience``,
    and then answers where it stands, which is wrong. ``level`` is the number of hops. ``rows("train")`` are a fixed set
    of demonstrations, ``stream("train", seed)`` new problems without end, ``rows("test")`` the same whatever the seed;
    no test problem occurs elsewhere. A reward for the end alone that makes a model follow more arrows than anybody
    showed is the setting of Ran-Milo et al. (2026, arXiv 2601.15158).
    """

    names: Annotated[int, Range(lambda names: 5 <= names <= 26, "must lie between 5 and 26")] = 16
    """Letters that name places; a problem has so many of them and so many arrows at most, and often fewer."""
    hops: tuple[int, int] = (1, 6)
    """Fewest and most hops of a training problem, all equally frequent."""
    test_hops: tuple[int, int] = (7, 12)
    """Fewest and most hops of a test problem."""
    impatience: Share = 0.75
    """Probability to give up after a hop, typically 0.5 to 0.8."""
    demonstrations: PositiveInt = 40_000

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hops", "test_hops"):
            low, high = getattr(self, name)
            most = self.names - 1 - _OFF
            if not 1 <= low <= high <= most:
                raise UserError(
                    f"{name} ({low}, {high}): needs 1 <= fewest <= most <= {most}, as {_OFF} of the {self.names} names "
                    "lie off the way; raise names, or ask for fewer hops"
                )

    def vocabulary(self) -> list[str]:
        """Every word of a prompt or demonstration."""
        names = ascii_lowercase[: self.names]
        return [*TAGS, "from", *names, *(start + end for start in names for end in names)]

    def problems(self, split: str, seed: str) -> Iterator[Row]:
        rng = random.Random(f"gaitway arrows/{seed}")
        names = list(ascii_lowercase[: self.names])
        while True:
            level = rng.randint(*(self.hops if split == "train" else self.test_hops))
            rng.shuffle(names)
            way = names[: level + 1]
            arrows = [start + end for start, end in pairwise(way)] + [2 * way[-1]]
            more = len(names) - level - _OFF  # few as a rule: whom to attend to is hard to learn among many
            off = names[-(_OFF + int(more * rng.random() ** 3)) :]
            for start, end in pairwise([*off, ""]):
                arrows.append(start + (end if end and rng.random() >= _LAST else start))
            rng.shuffle(arrows)
            gone = 1
            while gone < level and rng.random() >= self.impatience:
                gone += 1
            prompt = f"{' '.join(arrows)} from {way[0]}"
            if belongs(prompt, split):
                completion = with_tags(" ".join(way[: gone + 1]), way[gone])
                yield {"prompt": prompt, "answer": way[-1], "completion": completion, "level": level}
