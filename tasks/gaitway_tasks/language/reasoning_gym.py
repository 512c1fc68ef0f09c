"""Problems of reasoning-gym (Stojanovski et al. 2025, arXiv 2505.24760), made as needed, with its own scores."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from random import Random
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, PositiveInt

from .answers import tagged
from .rows import Row, RowError, check_split

PREFIX = "reasoning-gym:"
"""Of names of tasks, before a data set's."""
_BLOCK = 100
"""Problems of one seed; problem i of seed s is problem i - 1 of s + 1, so seeds lie this far apart."""
_KNOWN_IN_A_ROW = 1000
"""Test problems that a stream skips in a row before it is clear that there is nothing else."""


@dataclass(frozen=True, kw_only=True)
class ReasoningGymSource(Checked):
    """Rows with ``prompt``, ``answer``, the ``entry`` that the score asks for, and the ``problems`` it is one of.

    Problems have seeds of their own: test rows the first, the others random ones of all the rest. What a test row asks
    is left out of training, where another seed has it again.
    """

    dataset: str
    """Name among reasoning-gym's data sets, such as "chain_sum"."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the data set's configuration, such as ``{"max_terms": 4}``."""
    train: PositiveInt = 500
    """Rows for agents that read a fixed set; those that sample get others without end."""
    test: PositiveInt = 200

    def rows(self, split: str) -> list[Row]:
        check_split(split)
        if split == "test":
            return list(islice((row for first in count(0, _BLOCK) for row in self._block(first)), self.test))
        return list(islice(self.stream("train", 0), self.train))

    def stream(self, split: str, seed: int) -> Iterator[Row]:
        """Problems without end, none of them asked in a test row."""
        check_split(split)
        random, tested = Random(f"gaitway reasoning-gym/{split}/{seed}"), {row["prompt"] for row in self.rows("test")}
        first, skipped = -(-self.test // _BLOCK), 0
        while True:
            for row in self._block(_BLOCK * random.randrange(first, 2**31 // _BLOCK)):
                if row["prompt"] not in tested:
                    skipped = 0
                    yield row
                elif (skipped := skipped + 1) == _KNOWN_IN_A_ROW:
                    raise RowError(
                        f"{PREFIX}{self.dataset}: the {self.test} test rows are all problems that there are: make "
                        "task.source.test smaller, or problems more different by task.source.params"
                    )

    @functools.cached_property
    def _problems(self) -> str:
        return json.dumps([self.dataset, dict(self.params)])

    def _block(self, seed: int) -> Iterator[Row]:
        for entry in _made(self._problems, seed):
            yield {
                "prompt": entry["question"], "answer": str(entry["answer"]), "entry": entry,
                "problems": self._problems,
            }  # fmt: skip


def reasoning_score(
    prompts: Sequence[str],
    completions: Sequence[str],
    *,
    entry: Sequence[Mapping[str, Any]],
    problems: Sequence[str],
    **columns: Any,
) -> list[float]:
    """reasoning-gym's ``score_answer``, from 0 to 1, of what stands between the last answer tags."""
    return [
        float(_made(name, 0).score_answer(tagged(completion).strip() or None, each))
        for completion, each, name in zip(completions, entry, problems, strict=True)
    ]


@functools.lru_cache(maxsize=64)
def _made(problems: str, seed: int) -> Any:
    """A data set of one block; ``problems`` is JSON of its name and settings. Raises ``ValueError``."""
    name, params = json.loads(problems)
    try:
        import reasoning_gym
    except ImportError as error:
        raise UserError(f"{PREFIX}{name} needs reasoning-gym, not installed here: pip install reasoning-gym") from error
    try:
        return reasoning_gym.create_dataset(name, seed=seed, size=_BLOCK, **params)
    except (AssertionError, TypeError, ValueError) as error:
        raise UserError(
            f"{PREFIX}{name} with task.source.params={params}: {error}. Names and settings are those of "
            f"reasoning-gym's data sets{_near(name)}"
        ) from error


def _near(name: str) -> str:
    from difflib import get_close_matches

    from reasoning_gym.factory import DATASETS

    near = [] if name in DATASETS else get_close_matches(name, DATASETS, n=1)
    return f": did you mean {near[0]!r}?" if near else ""
