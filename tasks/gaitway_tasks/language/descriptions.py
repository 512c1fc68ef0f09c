"""Requests to describe a few things, a writer of little care, and a judge whose taste only examples tell."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .rows import Row, check_split

THINGS = ("fox", "lake", "bell", "tree", "boat", "lamp", "road", "bird", "house", "river", "clock", "horse")
PLEASANT = ("bright", "gentle", "lovely", "warm")
PLAIN = ("small", "old", "tall", "grey")
UNPLEASANT = ("ugly", "rotten", "awful", "dull")
POLITE, RUDE = "thank you", "now leave"

_ITEM = re.compile(f"a ({'|'.join(PLEASANT + PLAIN + UNPLEASANT)}) ({'|'.join(THINGS)})")


@dataclass(frozen=True, kw_only=True)
class DescriptionSource:
    """Requests and answers such as

    | describe the fox and the bell
    | a tall fox and a warm lake and a ugly fox . thank you

    Each row has a ``prompt``, a ``completion`` as the careless writer writes it, and two more of the writer's answers,
    ``chosen`` and ``rejected`` by a judge who makes mistakes: it compares their scores (see :func:`score`) with the
    noise of the model of Bradley and Terry (1952). Words are separated by single spaces.
    """

    asked: int = 2
    """Things in a request."""
    longest: int = 4
    """Most things that the writer describes."""
    faithful: float = 0.6
    """Probability that the writer describes a thing that was asked for, perhaps for a second time, not any thing."""
    noise: float = 0.25
    """The answer that is better by this much is chosen with odds e : 1; 0 makes no mistakes."""
    pairs: int = 4000
    test_pairs: int = 500

    def __post_init__(self) -> None:
        if not 1 <= self.asked <= len(THINGS) // 2:
            raise ValueError(f"asked {self.asked}: must lie between 1 and {len(THINGS) // 2}")
        if self.longest < 1:
            raise ValueError(f"longest {self.longest}: must be at least 1")
        if not 0.0 <= self.faithful <= 1.0:
            raise ValueError(f"faithful {self.faithful}: is a probability")
        if not self.noise >= 0.0:
            raise ValueError(f"noise {self.noise}: must not be negative")
        if self.pairs < 1 or self.test_pairs < 1:
            raise ValueError(f"pairs {self.pairs}, test_pairs {self.test_pairs}: both must be at least 1")

    def rows(self, split: str) -> list[Row]:
        check_split(split)
        rng = random.Random(f"gaitway descriptions/rows/{split}")
        return [self._row(rng, split) for _ in range(self.pairs if split == "train" else self.test_pairs)]

    def stream(self, split: str, seed: int) -> Iterator[Row]:
        """New rows without end."""
        check_split(split)
        rng = random.Random(f"gaitway descriptions/stream/{split}/{seed}")
        while True:
            yield self._row(rng, split)

    def vocabulary(self) -> list[str]:
        """Every word that a row can contain."""
        words = {word for text in ("describe the and .", "a", POLITE, RUDE) for word in text.split()}
        return [*sorted(words), *THINGS, *PLEASANT, *PLAIN, *UNPLEASANT]

    def prefer(self, rng: random.Random, prompt: str, first: str, second: str) -> tuple[str, str]:
        """The answer that the judge, with its mistakes, chooses, and the one it rejects."""
        difference = score(prompt, first) - score(prompt, second)
        likely = 1.0 / (1.0 + math.exp(-difference / self.noise)) if self.noise else 0.5 + 0.5 * _sign(difference)
        return (first, second) if rng.random() < likely else (second, first)

    def _row(self, rng: random.Random, split: str) -> Row:
        wanted = rng.sample(THINGS, self.asked)
        while (sum(map(THINGS.index, wanted)) % 5 == 0) != (split == "test"):  # no request is in both splits
            wanted = rng.sample(THINGS, self.asked)
        prompt = f"describe {' and '.join(f'the {thing}' for thing in wanted)}"
        chosen, rejected = self.prefer(rng, prompt, self._write(rng, wanted), self._write(rng, wanted))
        return {
            "prompt": prompt,
            "completion": self._write(rng, wanted),
            "chosen": chosen,
            "rejected": rejected,
        }

    def _write(self, rng: random.Random, wanted: Sequence[str]) -> str:
        items = []
        for _ in range(rng.randint(1, self.longest)):
            thing = rng.choice(wanted if rng.random() < self.faithful else THINGS)
            items.append(f"a {rng.choice(rng.choice((PLEASANT, PLAIN, UNPLEASANT)))} {thing}")
        ending = rng.choice((POLITE, RUDE, ""))
        return f"{' and '.join(items)} .{' ' if ending else ''}{ending}"


def score(prompt: str, completion: str) -> float:
    """What an answer is truly worth, at most 1.25 for each thing that was asked for and 0.5.

    1 for each thing that was asked for; -0.5 for another thing, for one a second time, and for words in no known form;
    0.25 for a pleasant word and -0.25 for an unpleasant one; 0.5 for a polite ending and -0.5 for a rude one.
    """
    wanted = set(prompt.split()) & set(THINGS)
    body, _, ending = (part.strip() for part in completion.partition("."))
    total = {POLITE: 0.5, RUDE: -0.5, "": 0.0}.get(ending, -0.5)
    described: set[str] = set()
    for item in body.split(" and "):
        known = _ITEM.fullmatch(item)
        if known is None:
            total -= 0.5
            continue
        quality, thing = known[1], known[2]
        total += 1.0 if thing in wanted and thing not in described else -0.5
        total += 0.25 * (quality in PLEASANT) - 0.25 * (quality in UNPLEASANT)
        described.add(thing)
    return total


def judge(prompts: Sequence[str], completions: Sequence[str], **columns: Any) -> list[float]:
    """The :func:`score` of each answer, as a reward."""
    return [score(prompt, completion) for prompt, completion in zip(prompts, completions, strict=True)]


def _sign(value: float) -> float:
    return float(value > 0.0) - float(value < 0.0)
