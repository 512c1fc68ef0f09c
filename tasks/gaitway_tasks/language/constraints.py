"""Constraints on an answer that a program can check, after IFEval (Zhou et al. 2023, arXiv 2311.07911).

Each has IFEval's name where IFEval has it. Words are counted as IFEval's are, runs of letters, digits and underscores.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gaitway_files.errors import UserError

Values = Mapping[str, Any]
"""What a constraint asks for in particular, such as ``{"number": 8}``."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Words that constraints are made with."""

    words: tuple[str, ...]
    phrases: tuple[str, ...]
    openings: tuple[str, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """One kind of constraint."""

    wordings: tuple[str, ...]
    """Sentences that ask for it; the last one is kept for test problems."""
    draw: Callable[[random.Random, Vocabulary], Values]
    share: Callable[..., float]
    """``share(answer, **values)``: how near an answer comes, from 0 to 1; only 1 is met."""
    excludes: tuple[str, ...] = ()
    """Kinds that cannot be asked for beside this one."""


def share_met(answer: str, constraint: Values) -> float:
    """How near ``answer`` comes to a constraint of a row, ``{"kind": name, **values}``: 1 if it is met, else less."""
    values = dict(constraint)
    kind = values.pop("kind", None)
    if kind not in CONSTRAINTS:
        raise UserError(f"constraint {kind!r}: use one of {', '.join(CONSTRAINTS)}")
    return CONSTRAINTS[kind].share(answer.strip(), **values)


def words_of(text: str) -> list[str]:
    """Words of a text."""
    return re.findall(r"\w+", text)


def sentences_of(text: str) -> list[str]:
    """Sentences of a text: parts that end with one of .!? before a space or the end."""
    return [part for part in re.split(r"(?<=[.!?])[\"')\]]*\s+", text.strip()) if words_of(part)]


def _near(off: float) -> float:
    return 1.0 / (1.0 + off)


def _at_most_words(answer: str, *, number: int) -> float:
    count = len(words_of(answer))
    return 1.0 if 0 < count <= number else max(0.0, 0.9 - (count - number) / number) if count else 0.0


def _at_least_words(answer: str, *, number: int) -> float:
    return min(1.0, len(words_of(answer)) / number)


def _sentences(answer: str, *, number: int) -> float:
    return _near(abs(len(sentences_of(answer)) - number))


def _lowercase(answer: str) -> float:
    return _near(sum(letter.isupper() for letter in answer)) if any(map(str.isalpha, answer)) else 0.0


def _capital(answer: str) -> float:
    letters = [letter for letter in answer if letter.isalpha()]
    return sum(letter.isupper() for letter in letters) / len(letters) if letters else 0.0


def _no_comma(answer: str) -> float:
    return _near(answer.count(",")) if answer else 0.0


def _between(begin: str, end: str) -> Callable[[str], float]:
    def share(answer: str) -> float:
        return 0.5 * (answer[:1] == begin) + 0.5 * (answer[-1:] == end and len(answer) > 2)

    return share


def _begins(answer: str, *, word: str) -> float:
    found = [w.lower() for w in words_of(answer)]
    return 1.0 if found[:1] == [word.lower()] else 0.5 * (word.lower() in found)


def _ends(answer: str, *, phrase: str) -> float:
    text = answer.lower()
    return 1.0 if text.rstrip(" .!?\"')]}").endswith(phrase.lower()) else 0.5 * (phrase.lower() in text)


def _has_words(answer: str, *, words: Sequence[str]) -> float:
    found = {word.lower() for word in words_of(answer)}
    return sum(word.lower() in found for word in words) / len(words)


def _lacks_words(answer: str, *, words: Sequence[str]) -> float:
    found = [word.lower() for word in words_of(answer)]
    return _near(sum(word in words for word in found)) if found else 0.0


def _json_object(answer: str, *, keys: Sequence[str]) -> float:
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        return 0.1 * answer.startswith("{") + 0.1 * answer.endswith("}") + 0.05 * (f'"{keys[0]}":' in answer)
    if not isinstance(found, dict) or not found:
        return 0.2
    told = all(value not in (None, "", [], {}) for value in found.values())
    return 1.0 if found.keys() == set(keys) and told else 0.4 + 0.4 * len(found.keys() & set(keys)) / len(keys)


def _list_of(mark: str) -> Callable[..., float]:
    def share(answer: str, *, number: int) -> float:
        lines = [line.strip() for line in answer.splitlines() if line.strip()]
        marked = sum(
            line.startswith(mark.format(i)) and len(words_of(line)) > 1 for i, line in enumerate(lines, start=1)
        )
        if marked == len(lines) == number:
            return 1.0
        return 0.8 * marked / max(number, len(lines), 1)

    return share


def _none(rng: random.Random, vocabulary: Vocabulary) -> Values:
    return {}


def _number(low: int, high: int) -> Callable[[random.Random, Vocabulary], Values]:
    return lambda rng, _: {"number": rng.randint(low, high)}


_FORMS = ("json_format", "number_bullet_lists", "number_lists", "square_brackets", "quotation")
_ENDS = ("quotation", "square_brackets", "json_format", "number_bullet_lists", "number_lists")
CONSTRAINTS: dict[str, Constraint] = {
    "number_words": Constraint(
        wordings=("Use at most {number} words.", "Do not use more than {number} words.", "Stay within {number} words."),
        draw=_number(8, 16),
        share=_at_most_words,
        excludes=("least_words", *_FORMS),
    ),
    "least_words": Constraint(
        wordings=(
            "Write {number} words or more.",
            "Do not use fewer than {number} words.",
            "Use at least {number} words.",
        ),
        draw=_number(12, 20),
        share=_at_least_words,
        excludes=("number_words", "number_sentences", *_FORMS),
    ),
    "number_sentences": Constraint(
        wordings=(
            "Answer in exactly {number} sentences.",
            "Your answer must have exactly {number} sentences.",
            "Write exactly {number} sentences.",
        ),
        draw=_number(2, 3),
        share=_sentences,
        excludes=("number_words", "least_words", *_FORMS),
    ),
    "english_lowercase": Constraint(
        wordings=(
            "Write only in lower case letters.",
            "Use no capital letters at all.",
            "Your whole answer must be in lower case.",
        ),
        draw=_none,
        share=_lowercase,
        excludes=("english_capital", "startend_word"),
    ),
    "english_capital": Constraint(
        wordings=(
            "Write only in capital letters.",
            "USE CAPITAL LETTERS ONLY.",
            "Your whole answer must be in upper case.",
        ),
        draw=_none,
        share=_capital,
        excludes=("english_lowercase",),
    ),
    "no_comma": Constraint(
        wordings=("Do not use any commas.", "Write without commas.", "Avoid commas in your answer."),
        draw=_none,
        share=_no_comma,
        excludes=("json_format",),
    ),
    "quotation": Constraint(
        wordings=(
            "Put your whole answer in double quotation marks.",
            'Begin and end your answer with the sign ".',
            "Wrap your entire answer in double quotes.",
        ),
        draw=_none,
        share=_between('"', '"'),
        excludes=(*_FORMS, "first_word", "end_checker"),
    ),
    "first_word": Constraint(
        wordings=(
            'Begin your answer with the word "{word}".',
            'The first word of your answer must be "{word}".',
            'Start with the word "{word}".',
        ),
        draw=lambda rng, vocabulary: {"word": rng.choice(vocabulary.openings)},
        share=_begins,
        excludes=_FORMS,
    ),
    "end_checker": Constraint(
        wordings=(
            'End your answer with the words "{phrase}".',
            'The last words of your answer must be "{phrase}".',
            'Finish with the exact words "{phrase}".',
        ),
        draw=lambda rng, vocabulary: {"phrase": rng.choice(vocabulary.phrases)},
        share=_ends,
        excludes=_FORMS,
    ),
    "existence": Constraint(
        wordings=(
            'Use the words "{words[0]}" and "{words[1]}".',
            'Your answer must contain the words "{words[0]}" and "{words[1]}".',
            'Include both "{words[0]}" and "{words[1]}" in your answer.',
        ),
        draw=lambda rng, vocabulary: {"words": rng.sample(vocabulary.words, 2)},
        share=_has_words,
    ),
    "forbidden_words": Constraint(
        wordings=(
            'Do not use the word "{words[0]}".',
            'Never use the word "{words[0]}".',
            'Avoid the word "{words[0]}".',
        ),
        draw=lambda rng, _: {"words": [rng.choice(("the", "is", "a", "and", "of", "that"))]},
        share=_lacks_words,
    ),
    "json_format": Constraint(
        wordings=(
            'Answer only with a JSON object with the keys "{keys[0]}" and "{keys[1]}".',
            'Write nothing but a JSON object that has the keys "{keys[0]}" and "{keys[1]}".',
            'Your answer must be a JSON object with exactly the keys "{keys[0]}" and "{keys[1]}".',
        ),
        draw=lambda rng, vocabulary: {"keys": rng.sample(vocabulary.keys, 2)},
        share=_json_object,
        excludes=(*_FORMS, "no_comma", "english_capital"),
    ),
    "number_bullet_lists": Constraint(
        wordings=(
            'Answer with exactly {number} lines that each begin with "- ".',
            'Write a list of exactly {number} points, each on a line that starts with "- ".',
            'Give exactly {number} bullet points and nothing else; every line starts with "- ".',
        ),
        draw=_number(2, 3),
        share=_list_of("- "),
        excludes=_FORMS,
    ),
    "square_brackets": Constraint(
        wordings=("Put your whole answer in square brackets.",),
        draw=_none,
        share=_between("[", "]"),
    ),
    "number_lists": Constraint(
        wordings=('Write exactly {number} lines that begin with "1. ", "2. " and so on.',),
        draw=_number(2, 3),
        share=_list_of("{}. "),
    ),
    "least_sentences": Constraint(
        wordings=("Write at least {number} sentences.",),
        draw=_number(2, 4),
        share=lambda answer, number: min(1.0, len(sentences_of(answer)) / number),
    ),
    "frequency": Constraint(
        wordings=('Use the word "{word}" at least {number} times.',),
        draw=lambda rng, vocabulary: {"word": rng.choice(vocabulary.words), "number": 2},
        share=lambda answer, word, number: min(1.0, words_of(answer.lower()).count(word) / number),
    ),
    "end_mark": Constraint(
        wordings=("End your answer with an exclamation mark.",),
        draw=_none,
        share=lambda answer: 1.0 if answer.endswith("!") else 0.5 * ("!" in answer),
    ),
}
"""Constraints by name."""
NEW = ("least_sentences", "frequency", "square_brackets", "number_lists", "end_mark")
"""Kinds that no training problem has, and that tests ask for to see what carries over."""
TRAINED = tuple(name for name in CONSTRAINTS if name not in NEW)
