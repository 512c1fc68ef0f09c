"""Definition of a language task: data and plain functions, no tokeniser and no model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, PositiveFloat, PositiveInt

from .arithmetic import ArithmeticSource
from .arrows import ArrowSource
from .descriptions import DescriptionSource
from .digit_sums import DigitSumSource
from .env import EnvironmentSource, Played, TextEnv, ToolEnv
from .gyms import GymnasiumSource
from .instructions import InstructionSource
from .reasoning_gym import ReasoningGymSource
from .records import RecordSource
from .rows import Row, RowError, Rows
from .sources import GSM8K, FileSource, MixedSource
from .tools import TOOLS
from .verifiers import VerifiersSource

Source = (
    ArithmeticSource
    | ArrowSource
    | GSM8K
    | FileSource
    | MixedSource
    | DescriptionSource
    | DigitSumSource
    | EnvironmentSource
    | GymnasiumSource
    | InstructionSource
    | RecordSource
    | ReasoningGymSource
    | VerifiersSource
)
"""Sources of a task's rows; each is a :class:`Rows`."""

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
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Variables of the model's chat template, such as ``{"enable_thinking": False}``."""
    max_prompt_tokens: PositiveInt = 512
    max_completion_tokens: PositiveInt = 512
    """Tokens of a whole answer, all turns and what tools wrote included."""
    tools: tuple[str, ...] = ()
    """Tools the model may call, by name: "calculator", "python"."""
    environment: Callable[[], TextEnv] | None = None
    """``module:Class`` of what replies to answers and rewards them; None is the source's own, or the tools."""
    max_turns: PositiveInt = 1
    """Answers of the model within one dialogue; more than one only with tools or an environment."""
    step_time_limit: PositiveFloat = 60.0
    """Longest time of a ``reset`` or ``step`` of the environment [s]; one that takes longer is an error."""
    step_threads: PositiveInt = 1
    """Threads that make these calls, for environments that wait; typically 16 to 64. A dialogue keeps to one of them,
    and dialogues of different threads must not share what only one thread may use."""
    curriculum: bool = False
    """Draw prompts more often from the ``level`` (or ``difficulty``) of rows at which about half of the answers are
    right; otherwise as the source has them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = [name for name in self.tools if name not in TOOLS]
        if unknown:
            raise UserError(f"tools {', '.join(unknown)}: use some of {', '.join(TOOLS)}")
        if self.tools and self.plays:
            raise UserError(f"tools {', '.join(self.tools)}: an environment brings its own, so leave task.tools empty")
        if self.tools and self.max_turns == 1:
            raise UserError(f"max_turns 1 with tools {', '.join(self.tools)}: a reply needs a further turn")
        if self.max_turns > 1 and not self.tools and not self.plays:
            raise UserError(f"max_turns {self.max_turns}: without tools or an environment nothing replies")

    @property
    def plays(self) -> bool:
        """True if an environment rewards answers."""
        return self.environment is not None or isinstance(self.source, Played)

    @property
    def rewarded(self) -> bool:
        """True if answers are rewarded, by an environment or by rewards with a weight."""
        return self.plays or any(reward.weight for reward in self.rewards.values())

    def new_environment(self) -> TextEnv:
        """Environment of one new dialogue."""
        if self.environment is not None:
            return self.environment()
        if isinstance(self.source, VerifiersSource):
            return self.source.new(self.max_turns)
        if isinstance(self.source, Played):
            return self.source.new()
        return ToolEnv([TOOLS[name] for name in self.tools])

    def replace(self, **changes: Any) -> Self:
        """Copy of the task with other values for these fields, checked again."""
        return replace(self, **changes)
