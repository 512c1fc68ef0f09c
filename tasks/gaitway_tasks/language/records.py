"""Sentences to turn into records that a program can read: a task for models that can write already."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gaitway_files.ranges import PositiveInt

from .generated import GeneratedSource
from .rows import Row

REQUESTS = {
    "train": (
        "Turn this sentence into a JSON object with the keys {keys}: {sentence}",
        "Write the following as a JSON object with the keys {keys}. {sentence}",
        "{sentence} Answer only with a JSON object that has the keys {keys}.",
    ),
    "test": ("Give me {keys} of this sentence as a JSON object. {sentence}",),
}


@dataclass(frozen=True)
class Kind:
    """One kind of record."""

    fields: dict[str, tuple[tuple[str, ...], tuple[str, ...]] | range]
    """Values by key: texts of training and of test problems, or numbers."""
    sentences: tuple[str, ...]
    """Sentences that tell of one; the last one is kept for test problems."""


NAMES = (
    ("Anna", "Peter", "Maria", "John", "Sara", "David", "Laura", "Paul", "Emma", "Tom", "Julia", "Mark"),
    ("Clara", "Henry", "Nina", "Oscar", "Lucy", "Simon"),
)
CITIES = (
    ("Rome", "Paris", "Berlin", "Madrid", "Vienna", "London", "Prague", "Dublin", "Athens", "Oslo", "Warsaw", "Zurich"),
    ("Lisbon", "Munich", "Milan", "Geneva", "Tokyo", "Cairo"),
)
COLOURS = (("red", "blue", "green", "white", "black", "yellow", "brown"), ("grey", "purple", "orange", "pink"))
KINDS: dict[str, Kind] = {
    "person": Kind(
        fields={"name": NAMES, "age": range(18, 90), "city": CITIES},
        sentences=(
            "{name} is {age} years old and lives in {city}.",
            "{name}, who turned {age} this year, comes from {city}.",
            "In {city} we met {name}, aged {age}.",
        ),
    ),
    "order": Kind(
        fields={
            "item": (
                ("chairs", "lamps", "shirts", "cups", "boxes", "pens", "hats", "plates", "bags", "towels"),
                ("tables", "shoes", "bottles", "scarves", "bowls"),
            ),
            "count": range(2, 60),
            "colour": COLOURS,
        },
        sentences=(
            "Please send me {count} {colour} {item}.",
            "We need {item}, {count} of them, all {colour}.",
            "I would like to buy {count} {item} in {colour}.",
        ),
    ),
    "journey": Kind(
        fields={"start": CITIES, "goal": CITIES, "hour": range(1, 24)},
        sentences=(
            "The train from {start} to {goal} leaves at {hour} o'clock.",
            "At {hour} o'clock a bus goes to {goal}; it starts in {start}.",
            "We fly from {start} at {hour} o'clock and land in {goal}.",
        ),
    ),
    "weather": Kind(
        fields={
            "place": CITIES,
            "degrees": range(-9, 38),
            "sky": (("sunny", "cloudy", "rainy", "foggy", "clear"), ("stormy", "windy", "snowy")),
        },
        sentences=(
            "It is {sky} in {place} today, with {degrees} degrees.",
            "{place} has {degrees} degrees and the weather is {sky}.",
            "Today's weather in {place}: {sky}, {degrees} degrees.",
        ),
    ),
    "book": Kind(
        fields={
            "title": (
                ("The Long Road", "Silent Water", "A House of Glass", "Winter Light", "The Last Ship", "Green Hills"),
                ("The Old Clock", "Bright Stones", "A Summer Away"),
            ),
            "author": NAMES,
            "year": range(1900, 2024),
        },
        sentences=(
            'In {year} {author} wrote the book "{title}".',
            '"{title}" by {author} appeared in {year}.',
            '{author} published "{title}" in {year}.',
        ),
    ),
    "animal": Kind(
        fields={
            "animal": ((), ("dog", "cat", "horse", "goat", "rabbit")),
            "owner": NAMES,
            "weight": range(2, 80),
        },
        sentences=("The {animal} of {owner} weighs {weight} kilograms.",),
    ),
    "match": Kind(
        fields={"home": CITIES, "guest": CITIES, "goals": range(1, 9), "day": ((), ("Monday", "Friday", "Sunday"))},
        sentences=("On {day} {home} played against {guest} and shot {goals} goals.",),
    ),
}
"""Kinds of records by name."""
NEW = ("animal", "match")
"""Kinds that no training problem has, and that tests ask for to see what carries over."""
TRAINED = tuple(name for name in KINDS if name not in NEW)


@dataclass(frozen=True, kw_only=True)
class RecordSource(GeneratedSource):
    """Sentences with a request to turn them into JSON objects with given keys, such as

    | Turn this sentence into a JSON object with the keys "city", "name" and "age": Anna is 34 years old and lives in
    | Rome.

    Values and wordings of test problems occur in no training problem, but for numbers. A row's ``record`` is the
    object, and its ``level`` is the kind of record.
    """

    demonstrations: PositiveInt = 2000
    test_problems: PositiveInt = 480
    unseen: bool = False
    """True asks for the kinds of records that otherwise no problem has."""

    def problems(self, split: str, seed: str) -> Iterator[Row]:
        rng = random.Random(f"gaitway records/{seed}")
        for name in itertools.cycle(NEW if self.unseen else TRAINED):
            kind, record = KINDS[name], _drawn(KINDS[name], rng, tested=split == "test" or self.unseen)
            keys = rng.sample(list(record), len(record))
            sentence = kind.sentences[-1] if split == "test" or self.unseen else rng.choice(kind.sentences[:-1])
            quoted = [f'"{key}"' for key in keys]
            asked = f"{', '.join(quoted[:-1])} and {quoted[-1]}"
            request = rng.choice(REQUESTS[split])
            yield {
                "prompt": request.format(keys=asked, sentence=sentence.format(**record)),
                "completion": json.dumps({key: record[key] for key in keys}),
                "record": record,
                "level": name,
            }


def _drawn(kind: Kind, rng: random.Random, *, tested: bool) -> dict[str, str | int]:
    """Values of a record, those of equal lists different."""
    record: dict[str, str | int] = {}
    for key, values in kind.fields.items():
        if isinstance(values, range):
            record[key] = rng.choice(values)
        else:
            record[key] = rng.choice([value for value in values[tested] if value not in record.values()])
    return record


def recorded(prompts: Sequence[str], completions: Sequence[str], **columns: Any) -> list[float]:
    """1 where an answer is a JSON object with exactly the keys and values of ``record``, and nothing else; else 0.

    Numbers must be numbers, not texts.
    """
    return [float(value == 1.0) for value in likeness(prompts, completions, **columns)]


def likeness(
    prompts: Sequence[str], completions: Sequence[str], *, record: Sequence[dict[str, Any]], **columns: Any
) -> list[float]:
    """How like an answer is to what :func:`recorded` asks for, from 0 to 1: a fifth for being a JSON object, the rest
    for values that are right; a value that should be a number counts a half as a text."""
    return [_likeness(answer.strip(), right) for answer, right in zip(completions, record, strict=True)]


def _likeness(answer: str, right: dict[str, Any]) -> float:
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        return 0.1 * answer.startswith("{") + 0.05 * answer.endswith("}")
    if not isinstance(found, dict):
        return 0.05
    same = sum(_same(found[key], value) for key, value in right.items() if key in found)
    return 0.2 + 0.8 * (same / max(len(right), len(found)))


def _same(found: Any, right: str | int) -> float:
    if type(found) is type(right) and found == right:
        return 1.0
    return 0.5 * (isinstance(right, int) and found == str(right))
