"""Short requests with constraints that a program checks: a task for models that can write already."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gaitway_files.ranges import PositiveInt, Share

from .constraints import CONSTRAINTS, NEW, TRAINED, Values, Vocabulary, share_met, words_of
from .generated import GeneratedSource
from .rows import Row

REQUESTS = {
    "train": ("Briefly describe {}.", "Say something short about {}.", "Write a short text about {}."),
    "test": ("Briefly tell me about {}.", "Write a few words about {}."),
}
SUBJECTS = {
    "train": (
        "rain", "a bicycle", "the moon", "a horse", "bread", "a garden", "a lamp", "the sea", "a train", "winter",
        "a violin", "honey", "a forest", "a bridge", "coffee", "a letter", "the desert", "a kitchen", "a storm",
        "a clock", "football", "a village", "a mirror", "salt", "a teacher", "an island", "a candle", "paper",
        "a dog", "the morning", "a tower", "milk", "a river", "a school", "wool", "a ship", "a market", "snow",
        "a piano", "fire",
    ),
    "test": (
        "a cat", "the sun", "a library", "tea", "a mountain", "a car", "summer", "a chair", "an apple", "glass",
        "a doctor", "a beach", "a guitar", "the wind", "a farm", "cheese", "a window", "a robot", "a road", "gold",
    ),
}  # fmt: skip
VOCABULARIES = {
    "train": Vocabulary(
        words=(
            "quiet", "green", "old", "water", "people", "strong", "small", "light", "warm", "often", "never", "world",
            "long", "simple", "heavy", "bright", "home", "time", "hand", "white",
        ),
        phrases=("that is all", "thank you", "so it is", "the end", "believe me", "and so on", "good luck"),
        openings=("Listen", "Well", "Today", "Sometimes", "Imagine", "Indeed", "Everyone", "Perhaps"),
        keys=("name", "use", "colour", "size", "place", "material", "price", "sound"),
    ),
    "test": Vocabulary(
        words=("soft", "blue", "young", "food", "friends", "fast", "large", "dark", "cold", "always", "day", "life"),
        phrases=("nothing more", "see you soon", "as we know", "my friend"),
        openings=("Look", "Surely", "Once", "Usually", "Many"),
        keys=("kind", "shape", "weight", "age", "taste"),
    ),
}  # fmt: skip

FEWEST = 5
"""Fewest different words of a right answer."""


@dataclass(frozen=True, kw_only=True)
class InstructionSource(GeneratedSource):
    """Requests for a short text under one or two constraints, such as

    | Briefly describe rain. Use no capital letters at all. Do not use any commas.

    Subjects, words, keys and the wordings of requests and constraints of test problems occur in no training problem.
    A row's ``constraints`` are what :func:`~gaitway_tasks.language.constraints.share_met` reads, and its ``level`` is
    the name of its constraint, or "two".
    """

    demonstrations: PositiveInt = 2000
    test_problems: PositiveInt = 480
    two: Share = 0.25
    """Share of the problems with two constraints."""
    unseen: bool = False
    """True asks for the kinds of constraints that otherwise no problem has, one in each problem."""

    def problems(self, split: str, seed: str) -> Iterator[Row]:
        rng = random.Random(f"gaitway instructions/{seed}")
        kinds = NEW if self.unseen else TRAINED
        for first in itertools.cycle(kinds):
            subject, chosen = rng.choice(SUBJECTS[split]), [first]
            if not self.unseen and rng.random() < self.two:
                others = [
                    kind
                    for kind in kinds
                    if kind not in (first, *CONSTRAINTS[first].excludes) and first not in CONSTRAINTS[kind].excludes
                ]
                chosen.append(rng.choice(others))
            constraints = [{"kind": kind, **CONSTRAINTS[kind].draw(rng, VOCABULARIES[split])} for kind in chosen]
            asked = " ".join(_asked(constraint, rng, split) for constraint in constraints)
            yield {
                "prompt": f"{rng.choice(REQUESTS[split]).format(subject)} {asked}",
                "subject": subject.split()[-1],
                "constraints": constraints,
                "level": first if len(chosen) == 1 else "two",
            }


def _asked(constraint: Values, rng: random.Random, split: str) -> str:
    wordings = CONSTRAINTS[constraint["kind"]].wordings
    wording = rng.choice(wordings[:-1] or wordings) if split == "train" else wordings[-1]
    return wording.format(**constraint)


def followed(prompts: Sequence[str], completions: Sequence[str], **columns: Any) -> list[float]:
    """1 where an answer meets all constraints, says something about its subject and came to its end; else 0.

    It says something if it contains the subject and :data:`FEWEST` different words.
    """
    return [float(value == 1.0) for value in nearness(prompts, completions, **columns)]


def nearness(
    prompts: Sequence[str],
    completions: Sequence[str],
    *,
    constraints: Sequence[Sequence[Values]],
    subject: Sequence[str],
    finished: Sequence[bool] | None = None,
    **columns: Any,
) -> list[float]:
    """How near answers come to what :func:`followed` asks for, from 0 to 1: the mean over constraints, and half of it
    for an answer that says nothing or has no end."""
    ended = [True] * len(completions) if finished is None else finished
    return [
        sum(share_met(answer, each) for each in asked) / len(asked) * (1.0 if end and _tells(answer, about) else 0.5)
        for answer, asked, about, end in zip(completions, constraints, subject, ended, strict=True)
    ]


def _tells(answer: str, subject: str) -> bool:
    """True if an answer is about its subject: without this, "tea: tea." is the best answer to most requests."""
    return subject in answer.lower() and len(set(words_of(answer.lower()))) >= FEWEST
