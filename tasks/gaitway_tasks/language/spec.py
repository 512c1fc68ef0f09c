"""What a language task consists of: data and plain functions, no tokeniser and no model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, PositiveFloat, PositiveInt

from .arithmetic import ArithmeticSource
from .descriptions import DescriptionSource
from .rows import Row, RowError, Rows
from .sources import GSM8K, FileSource
from .tools import TOOLS

Source = ArithmeticSource | GSM8K | FileSource | DescriptionSource
"""Where the rows of a task may come from; each is a :class:`Rows`."""

__all__ = ["FileSource", "LanguageTask", "RewardFunction", "Row", "RowError", "Rows", "Source", "TextReward"]

RewardFunction = Callable[..., Sequence[float | None]]
"""``func(prompts, completions, **columns)``, called by name as TRL does: texts, and every further field of the rows as
a list of that name (of those that the function names, if it has no ``**columns``); returns a number for each
completion, None where it has no opinion. It runs in a thread of its own, where torch's gradient mode is the default."""


@dataclass(frozen=True, kw_only=True)
class TextReward(Checked):
    """One part of the reward: ``weight`` times ``func(prompts, completions, **columns, **params)``."""

    func: RewardFunction
    weight: float = 1.0
    params: Mapping[str, Any] = field(default_factory=dict)
    time_limit: PositiveFloat = 600.0
    """Longest time for the completions of one call [s]; one that takes longer is an error."""


@dataclass(frozen=True, kw_only=True)
class LanguageTask(Checked):
    """Prompts, and what answers are worth."""

    name: str
    source: Source
    rewards: Mapping[str, TextReward] = field(default_factory=dict)
    system_prompt: str = ""
    """Said before every prompt that brings no system message of its own."""
    max_prompt_tokens: PositiveInt = 512
    max_completion_tokens: PositiveInt = 512
    """Tokens of a whole answer, all turns and what tools wrote included."""
    tools: tuple[str, ...] = ()
    """Tools the model may call, by name: "calculator", "python"."""
    max_turns: PositiveInt = 1
    """Answers of the model within one conversation; more than one only with tools."""

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = [name for name in self.tools if name not in TOOLS]
        if unknown:
            raise UserError(f"tools {', '.join(unknown)}: use some of {', '.join(TOOLS)}")
        if bool(self.tools) != (self.max_turns > 1):
            raise UserError(
                f"max_turns {self.max_turns} with tools {self.tools}: a tool's reply needs a further turn, and without "
                "tools there is none"
            )

    def replace(self, **changes: Any) -> Self:
        return replace(self, **changes)
