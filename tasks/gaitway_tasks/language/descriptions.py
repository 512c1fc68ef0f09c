"""Requests to describe a few things, a writer of little care, and a judge whose taste only examples tell."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gaitway_files.ranges import Checked, NonNegativeFloat, PositiveInt, Share

from .rows import Row, check_split

THINGS = ["fox", "lake", "bell", "tree", "boat", "lamp", "road", "bird", "house", "river", "clock", "horse", "bridge"]
THINGS += ["cat", "tower", "garden"]
TONES = {
    "cheerful": ("bright", "warm", "lovely", "gentle", "merry", "sunny", "sweet", "jolly"),
    "gloomy": ("ugly", "rotten", "awful", "dull", "bitter", "broken", "dark", "cold"),
    "plain": ("small", "old", "tall", "grey", "flat", "round", "wide", "dry"),
}
POLITE, RUDE = "thank you", "now leave"

_WORDS = {word: tone for tone, words in TONES.items() for word in words}


@dataclass(frozen=True, kw_only=True)
class DescriptionSource(Checked):
    """Requests and answers such as

    | describe the fox in a cheerful tone
    | the fox is warm and ugly and sunny . thank you

    Each row has a ``prompt``, a ``completion`` as the careless writer writes it, and two more of the writer's answers,
    ``chosen`` and ``rejected`` by a judge who makes mistakes: it compares their scores (see :func:`score`) with the
    noise of the model of Bradley and Terry (1952). Words are separated by single spaces.
    """

    longest: PositiveInt = 5
    """Most words that the writer finds for a thing."""
    faithful: Share = 0.5
    """Probability that a word of the writer's is drawn from the tone that was asked for, and not from all words."""
    noise: NonNegativeFloat = 0.25
    """The answer that is better by this much is chosen with odds e : 1; 0 makes no mistakes."""
    pairs: PositiveInt = 4000
    test_pairs: PositiveInt = 500

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
        words = {word for text in ("describe the is and in a tone .", POLITE, RUDE) for word in text.split()}
        return [*sorted(words), *THINGS, *TONES, *_WORDS]

    def prefer(self, rng: random.Random, prompt: str, first: str, second: str) -> tuple[str, str]:
        """The answer that the judge, with its mistakes, chooses, and the one it rejects."""
        difference = score(prompt, first) - score(prompt, second)
        likely = 1.0 / (1.0 + math.exp(-difference / self.noise)) if self.noise else 0.5 + 0.5 * _sign(difference)
        return (first, second) if rng.random() < likely else (second, first)

    def _row(self, rng: random.Random, split: str) -> Row:
        while True:
            thing, tone = rng.randrange(len(THINGS)), rng.randrange(len(TONES))
            if ((thing + tone) % 5 == 0) == (split == "test"):  # no request is in both splits
                break
        name, wanted = THINGS[thing], list(TONES)[tone]
        prompt = f"describe the {name} in a {wanted} tone"
        chosen, rejected = self.prefer(rng, prompt, self._write(rng, name, wanted), self._write(rng, name, wanted))
        return {"prompt": prompt, "completion": self._write(rng, name, wanted), "chosen": chosen, "rejected": rejected}

    def _write(self, rng: random.Random, thing: str, tone: str) -> str:
        words = [
            rng.choice(TONES[tone] if rng.random() < self.faithful else list(_WORDS))
            for _ in range(rng.randint(1, self.longest))
        ]
        ending = rng.choice((POLITE, RUDE, ""))
        return f"the {thing} is {' and '.join(words)} .{' ' if ending else ''}{ending}"


def score(prompt: str, completion: str) -> float:
    """True score of an answer, at most 4.5.

    1 for each word of the tone that was asked for, the first time it is said and four times at most; -1 for a word of
    another tone, for another form than "the THING is WORD and WORD ." and for another thing; 0.5 for a polite ending,
    -0.5 for a rude one and -1 for any other.
    """
    request = prompt.split()
    tone = next((word for word in request if word in TONES), "")
    asked = [f"the {word}" for word in request if word in THINGS]
    start, _, rest = completion.partition(" is ")
    body, stop, ending = (part.strip() for part in rest.partition("."))
    total = {POLITE: 0.5, RUDE: -0.5, "": 0.0}.get(ending, -1.0)
    if start not in asked or not stop:
        total -= 1.0
    words = body.split(" and ")
    total -= sum(1.0 for word in words if _WORDS.get(word) != tone)
    return total + min(4, len({word for word in words if _WORDS.get(word) == tone}))


def judge(prompts: Sequence[str], completions: Sequence[str], **columns: Any) -> list[float]:
    """The :func:`score` of each answer, as a reward."""
    return [score(prompt, completion) for prompt, completion in zip(prompts, completions, strict=True)]


def _sign(value: float) -> float:
    return float(value > 0.0) - float(value < 0.0)
