"""Environments of texts: what replies to a model's answers, in dialogues of one turn or many."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from gaitway_files.ranges import Checked, PositiveInt
from gaitway_files.reading import VALUE, printable

from .rows import Row, check_split
from .tools import Tool, call_tools
from .watched import LIMIT, EnvironmentFailedError, Workers, named, watched

Opening = str | Sequence[Mapping[str, str]]
"""A prompt: text, or messages with ``role`` and ``content``."""
PLAYED = "environment"
"""Part of the reward that an environment gave."""


@dataclass(frozen=True)
class Turn:
    """Response of the environment to an answer."""

    reply: str | None = None
    """Message that the model reads next; None ends the dialogue."""
    reward: float = 0.0
    """Earned by this answer; those of a dialogue are summed."""
    role: str = "user"
    """Role of ``reply`` in the chat template: "user" or "tool"."""


class TextEnv(Protocol):
    """One dialogue. It can be pickled, and its class or factory takes no arguments.

    For example, a lake to be crossed in words::

        class Lake:
            def reset(self, row):
                self.place, self.holes = 0, set(random.Random(row["seed"]).sample(range(1, 4), 1))
                return "Four fields of ice: step or jump?"

            def step(self, answer):
                self.place += 2 if "jump" in answer else 1
                if self.place in self.holes:
                    return Turn(reward=0.0)
                return Turn(reward=1.0) if self.place > 3 else Turn("The ice holds. Step or jump?", reward=0.1)
    """

    def reset(self, row: Row) -> Opening:
        """Begin the dialogue of a row; equal rows give equal openings."""
        ...

    def step(self, answer: str) -> Turn:
        """Take the model's answer."""
        ...


class ToolEnv:
    """A row's prompt, and replies to the calls of tools; without a call the dialogue is over.

    A task names the tools that are built in; a subclass may bring its own (``super().__init__([Tool(price)])``).
    """

    def __init__(self, tools: Sequence[Tool] = ()):
        self.tools = tuple(tools)
        """Tools that the model is told of."""

    def reset(self, row: Row) -> Opening:
        """Prompt of the row."""
        opening: Opening = row["prompt"]
        return opening

    def step(self, answer: str) -> Turn:
        """Replies of the called tools; no reply if the answer calls none."""
        return Turn(call_tools(self.tools, answer), role="tool")


class Played(Checked, ABC):
    """Openings of an environment that needs no data: rows have ``prompt`` and the ``seed`` that it came from."""

    test: PositiveInt
    """Test rows."""
    train: PositiveInt
    """Training rows of agents that read a fixed set; those that sample get others without end."""

    @abstractmethod
    def new(self) -> TextEnv:
        """Environment of one new dialogue, not reset yet."""

    def rows(self, split: str) -> list[Row]:
        """Rows of "test", or as many others for "train"."""
        check_split(split)
        seeds = range(self.test) if split == "test" else range(self.test, self.test + self.train)
        return [self._row(seed) for seed in seeds]

    def stream(self, split: str, seed: int) -> Iterator[Row]:
        """Rows without end, none of them a test row."""
        check_split(split)
        random = Random(f"gaitway environment/{split}/{seed}")
        while True:
            yield self._row(self.test + random.getrandbits(31))

    def _row(self, seed: int) -> Row:
        env = self.new()
        with Workers(LIMIT) as workers:
            what = f"reset() of {named(env)} with the seed {seed}"
            opening = watched(workers, {0: lambda: env.reset({"seed": seed})}, lambda _: what)[0]
        if not _is_opening(opening):
            raise EnvironmentFailedError(
                f"{what} returned {printable(repr(opening), VALUE)}: it must return text, or messages with 'role' and "
                "'content', and not nothing"
            )
        return {"prompt": opening, "seed": seed}


def _is_opening(value: object) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    if not isinstance(value, Sequence) or not value:
        return False
    return all(isinstance(m, Mapping) and all(isinstance(m.get(k), str) for k in ("role", "content")) for m in value)


@dataclass(frozen=True, kw_only=True)
class EnvironmentSource(Played):
    """Openings of an environment of your own."""

    environment: Callable[[], TextEnv]
    """``module:Class`` of a :class:`TextEnv`."""
    test: PositiveInt = 200
    train: PositiveInt = 200

    def new(self) -> TextEnv:
        """New environment from the factory."""
        return self.environment()
