"""Arithmetic word problems without end, graded by how many steps they take."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, PositiveInt, ShareBelowOne

from .answers import TAGS, with_tags
from .rows import Row, check_split

NAMES = ("Tom", "Ana", "Max", "Eva", "Leo", "Mia", "Sam", "Zoe", "Ben", "Ivy", "Dan", "Amy")
THINGS = ("apples", "books", "coins", "pens", "cards", "shells", "stones", "cups", "eggs", "keys", "balls", "toys")
STARTS = ("{name} has {number} {things} .", "{name} starts with {number} {things} .", "there are {number} {things} .")
SENTENCES = {
    "+": tuple(f"{{name}} {verb} {{number}} ." for verb in ("finds", "buys", "gets", "wins", "adds", "makes")),
    "-": tuple(f"{{name}} {verb} {{number}} ." for verb in ("loses", "sells", "eats", "breaks", "drops", "gives")),
    "*": ("then {name} has {number} times as many .", "then there are {number} times as many ."),
}
QUESTIONS = ("how many {things} ?", "how many {things} now ?", "how many are left ?")

_TEST_SHARE = 10
"""One calculation in so many is kept for testing."""
_PATIENCE = 1000
"""Known problems in a row after which hardly any others are left."""


_MISTAKEN = {"+": "-", "-": "+", "*": "+"}


class _Step(NamedTuple):
    before: int
    operation: str
    operand: int
    after: int


@dataclass(frozen=True, kw_only=True)
class ArithmeticSource(Checked):
    """Word problems about a number of things that grows and shrinks, such as

    | Tom has 7 apples . Tom finds 5 . Tom sells 3 . how many apples now ?
    | <think> 7 + 5 = 12 ; 12 - 3 = 9 </think> <answer> 9 </answer>

    Words are separated by single spaces, so that a text is its list of words. ``rows("train")`` are a fixed set of
    demonstrations, correct and complete but for ``slips``; ``stream("train", seed)`` is new problems for ever;
    ``rows("test")`` are the same whatever the seed. No calculation of a test problem (its numbers and operations in
    order; of a one-step problem, the whole prompt) occurs anywhere else, in whatever words.
    """

    operations: tuple[str, ...] = ("+", "-")
    """Any of "+", "-", "*"."""
    steps: tuple[int, int] = (2, 3)
    """Fewest and most operations of a problem; their number is the row's ``level``, all levels equally frequent."""
    demonstration_steps: tuple[int, int] | None = None
    """Number of steps of demonstrations; None: as ``steps``."""
    test_steps: tuple[int, int] | None = None
    """Number of steps of test problems; None: as ``steps``."""
    operand: tuple[int, int] = (1, 9)
    """Smallest and largest number in an operation, and at the start."""
    max_total: int = 20
    """Largest intermediate result; none is negative."""
    demonstrations: PositiveInt = 1000
    slips: ShareBelowOne = 0.0
    """Share of the steps of demonstrations that their writer got wrong: half of them left out, half with the wrong
    operation; the rest follows from that. The problems are the same whatever the share."""
    test_problems: PositiveInt = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = [operation for operation in self.operations if operation not in SENTENCES]
        if unknown or not self.operations:
            raise UserError(f"operations {self.operations}: name some of {', '.join(map(repr, SENTENCES))}")
        for name in ("steps", "demonstration_steps", "test_steps"):
            low, high = getattr(self, name) or self.steps
            if not 1 <= low <= high:
                raise UserError(f"{name} ({low}, {high}): needs 1 <= fewest <= most")
        low, high = self.operand
        if not 0 <= low <= high or low > self.max_total:
            raise UserError(f"operand ({low}, {high}): needs 0 <= smallest <= largest, smallest <= max_total")

    def rows(self, split: str) -> list[Row]:
        """Distinct problems, each with ``prompt``, ``answer``, ``completion`` and ``level``.

        Those of "train" are demonstrations: ``completion`` may have slips, of which ``flawless`` tells.
        """
        check_split(split)
        train = split == "train"
        count = self.demonstrations if train else self.test_problems
        steps = (self.demonstration_steps if train else self.test_steps) or self.steps
        problems = self._problems(split, f"rows/{split}", steps)
        found: dict[str, Row] = {}
        repeated = 0
        while len(found) < count and repeated < _PATIENCE:
            row = next(problems)
            repeated = repeated + 1 if row["prompt"] in found else 0
            found.setdefault(row["prompt"], row)
        if len(found) == count:
            return self._demonstrated(list(found.values())) if train else list(found.values())
        raise UserError(
            f"only {len(found)} of {count} different {split} problems found: ask for fewer, or widen "
            f"steps {self.steps}, operand {self.operand} or max_total {self.max_total}"
        )

    def _demonstrated(self, rows: list[Row]) -> list[Row]:
        rng = random.Random("gaitway arithmetic/slips")
        found: list[Row] = []
        for row in rows:
            completion = _with_slips(rng, row["completion"], self.slips)
            found.append({**row, "completion": completion, "flawless": completion == row["completion"]})
        return found

    def stream(self, split: str, seed: int) -> Iterator[Row]:
        """New problems without end; a problem may come back, as in a bag that is put back into."""
        check_split(split)
        steps = (None if split == "train" else self.test_steps) or self.steps
        return self._problems(split, f"stream/{split}/{seed}", steps)

    def vocabulary(self) -> list[str]:
        """Every word that a prompt or a demonstration can contain, whatever the settings, numbers to 99 at least."""
        sentences = [*STARTS, *QUESTIONS, *(text for texts in SENTENCES.values() for text in texts)]
        words = {word for text in sentences for word in text.split() if "{" not in word}
        numbers = map(str, range(max(99, self.max_total, self.operand[1]) + 1))
        return [*TAGS, *SENTENCES, "=", ";", *numbers, *sorted(words), *NAMES, *THINGS]

    def _problems(self, split: str, seed: str, steps: tuple[int, int]) -> Iterator[Row]:
        rng = random.Random(f"gaitway arithmetic/{seed}")
        while True:
            level = rng.randint(*steps)
            calculation = self._calculate(rng, level)
            prompt = _tell(rng, calculation)
            key = prompt if level == 1 else " ".join(f"{s.before}{s.operation}{s.operand}" for s in calculation)
            held_out = zlib.crc32(key.encode()) % _TEST_SHARE == 0
            if held_out == (split == "test"):
                yield _row(prompt, calculation)

    def _calculate(self, rng: random.Random, level: int) -> list[_Step]:
        low, high = self.operand
        for _ in range(1000):
            steps: list[_Step] = []
            total = rng.randint(low, min(high, self.max_total))
            while len(steps) < level:
                possible = self._possible(total)
                if not possible:
                    break
                operation = rng.choice(sorted(possible))
                operand = rng.choice(possible[operation])
                after = _result(total, operation, operand)
                steps.append(_Step(total, operation, operand, after))
                total = after
            else:
                return steps
        raise UserError(
            f"no problem of {level} steps stays within 0 and max_total {self.max_total}: raise it, or allow more "
            f"operations than {self.operations}"
        )

    def _possible(self, total: int) -> dict[str, list[int]]:
        """The operands that each operation may have after ``total``; factors are at least 2."""
        low, high = self.operand
        found = {}
        for operation in self.operations:
            operands = range(max(low, 2) if operation == "*" else low, high + 1)
            kept = [operand for operand in operands if 0 <= _result(total, operation, operand) <= self.max_total]
            if kept:
                found[operation] = kept
        return found


def _result(total: int, operation: str, operand: int) -> int:
    return {"+": total + operand, "-": total - operand, "*": total * operand}[operation]


def _tell(rng: random.Random, calculation: list[_Step]) -> str:
    name, things = rng.choice(NAMES), rng.choice(THINGS)
    sentences = [rng.choice(STARTS).format(name=name, things=things, number=calculation[0].before)]
    sentences += [rng.choice(SENTENCES[s.operation]).format(name=name, number=s.operand) for s in calculation]
    return " ".join([*sentences, rng.choice(QUESTIONS).format(things=things)])


def _row(prompt: str, calculation: list[_Step]) -> Row:
    return {
        "prompt": prompt,
        "answer": str(calculation[-1].after),
        "completion": _completion(calculation),
        "level": len(calculation),
    }


def _completion(calculation: list[_Step]) -> str:
    thought = " ; ".join(f"{s.before} {s.operation} {s.operand} = {s.after}" for s in calculation)
    return with_tags(thought, str(calculation[-1].after))


def _with_slips(rng: random.Random, completion: str, share: float) -> str:
    """A demonstration as a careless person writes it, of at least one step."""
    written: list[_Step] = []
    total: int | None = None
    for before, operation, operand in re.findall(r"(\d+) ([-+*]) (\d+) =", completion):
        total = int(before) if total is None else total
        left_out = False
        if rng.random() < share:
            left_out = rng.random() < 0.5
            operation = _MISTAKEN[operation]
        after = _result(total, operation, int(operand))
        if not left_out and after >= 0:
            written.append(_Step(total, operation, int(operand), after))
            total = after
    return _completion(written) if written else completion
