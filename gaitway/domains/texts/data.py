"""The rows of a language task in tokens: checked as a whole before anything is learnt from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gaitway_agents.registry import TEXTS, Algorithm
from gaitway_language import data
from gaitway_language.conversation import Conversation, calls_are_read
from gaitway_language.curriculum import Curriculum
from gaitway_language.model import stop_tokens
from gaitway_language.world import prompt_tokens
from gaitway_tasks.language.answers import CORRECT
from gaitway_tasks.language.rows import place_of
from gaitway_tasks.language.sources import MixedSource
from gaitway_tasks.language.spec import LanguageTask, Row, RowError
from gaitway_tasks.language.tasks import offers
from gaitway_tasks.language.tools import tool_prompt

from ...errors import ConfigError

FEEDBACK = ("prompt", "completion", "label")
DEMONSTRATED = ("prompt", "completion")


@dataclass
class Fitting:
    """The rows of ``source`` whose prompts and answers are short enough, where such may be skipped.

    Implements ``gaitway_tasks.language.rows.Rows``.
    """

    source: Any
    task: LanguageTask
    conversation: Conversation
    learnt: Collection[str] = ()
    """Fields that are learnt from, whose lengths count."""
    too_long: int = 0
    """Rows left out so far."""

    def rows(self, split: str) -> list[Row]:
        found = self.source.rows(split)
        kept = [row for number, row in enumerate(found) if self._fits(number, row)]
        self.too_long += len(found) - len(kept)
        if not kept:
            raise RowError(
                f"{self.task.name}: all {len(found)} {split} rows are longer than task.max_prompt_tokens="
                f"{self.task.max_prompt_tokens} and task.max_completion_tokens={self.task.max_completion_tokens} allow"
            )
        return kept

    def stream(self, split: str, seed: int) -> Iterator[Row]:
        if isinstance(self.source, MixedSource):  # whose weights hold of what is left
            return self.source.draw(self.rows(split), seed)
        return (row for row in self.source.stream(split, seed) if self._fits(0, row))

    def _fits(self, number: int, row: Row) -> bool:
        try:
            check_lengths(number, row, self.task, self.conversation, self.learnt)
        except RowError:
            return False
        return True


def make_conversation(task: LanguageTask, tokenizer: Any, model: Any = None, prefill: str = "") -> Conversation:
    """Conversion of a task's texts to tokens, with its system prompt and its tools.

    ``model`` says by its configuration what else ends its answers; ``prefill`` begins each of them.
    """
    tools = getattr(task.new_environment(), "tools", ())
    schemas = [tool.schema for tool in tools]
    native = schemas if calls_are_read(tokenizer, schemas, task.chat_template_kwargs) else []
    told = [text for text in (task.system_prompt, tool_prompt(tools) if tools and not native else "") if text]
    conversation = Conversation(
        tokenizer, "\n\n".join(told), stop_tokens(model), native, prefill, task.chat_template_kwargs
    )
    if tools:
        conversation.check_tools()
    return conversation


def fitting(task: LanguageTask, conversation: Conversation, learnt: Collection[str] = ()) -> LanguageTask:
    """The task without the rows that cannot be used, if its source was asked to skip such.

    ``learnt`` are the fields of rows that are learnt from.
    """
    if not getattr(task.source, "skip_bad_rows", False):
        return task
    return task.replace(source=Fitting(task.source, task, conversation, learnt))


def check_lengths(
    number: int,
    row: Row,
    task: LanguageTask,
    conversation: Conversation,
    learnt: Collection[str],
    most: int | None = None,
) -> int:
    """Number of tokens in the prompt.

    Raises :class:`RowError` for a prompt, or an answer among the fields ``learnt``, that is empty or too long, with the
    row's place. ``most`` is how many tokens the model sees, where answers come from the rows and not from the model.
    """
    where = place_of(row, number, task.name)
    try:
        prompt = prompt_tokens(row, task, conversation)
    except RowError as error:
        raise RowError(f"{where}: {error}") from None
    for name in ("completion", "chosen", "rejected"):
        if name not in row or name not in learnt:
            continue
        length = len(conversation.answer(row[name]))
        if most is not None and len(prompt) + length > most:
            raise RowError(
                f"{where}: its prompt and {name} have {len(prompt) + length} tokens, more than the {most} that the "
                "model sees: shorten or leave out such rows"
            )
        if length > task.max_completion_tokens:
            raise RowError(
                f"{where}: its {name} has {length} tokens, more than task.max_completion_tokens="
                f"{task.max_completion_tokens}: raise that, or shorten or leave out such rows"
            )
    return len(prompt)


def check_fields(task: LanguageTask, agent: str, config: Any) -> None:
    """Raise :class:`ConfigError` if rows or rewards are not what the agent learns from, with the agents that do."""
    offered = offers(task.source)
    wanted = fields_for(TEXTS[agent], config, offered)
    if missing := [name for name in wanted if name not in offered]:
        lacking = getattr(task.source, "lacking", lambda name: [task.name])(missing[0])
        raise ConfigError(
            f"agent {agent!r} learns from {', '.join(wanted)}, and the rows of {', '.join(lacking)} have no "
            f"{missing[0]!r}, only {', '.join(sorted(offered))}: {_use_instead(task, offered)}"
        )
    if TEXTS[agent].needs_reward and not task.rewarded:
        raise ConfigError(
            f"agent {agent!r} learns from rewards, and {task.name} has none: add --reward-model with a run folder, an "
            f"address or module:function, give the rows a field 'answer', or {_use_instead(task, offered)}"
        )


def check_curriculum(task: LanguageTask, agent: str) -> None:
    """Raise an error if a curriculum is asked for where no answers are right or wrong, or rows have no levels."""
    if not task.curriculum:
        return
    if not TEXTS[agent].samples or not set(CORRECT) & task.rewards.keys():
        raise ConfigError(
            f"task.curriculum=true with agent {agent!r} and the rewards {', '.join(task.rewards) or 'none'}: it needs "
            f"an agent that samples and a reward {' or '.join(CORRECT)}, which is 1 for a right answer; leave it out"
        )
    Curriculum(task.source, 0)


def learnt_fields(task: LanguageTask, agent: str, config: Any) -> tuple[str, ...]:
    """The fields of a task's rows that an agent with these settings learns from."""
    return fields_for(TEXTS[agent], config, offers(task.source))


def fields_for(algorithm: Algorithm, config: Any, offered: Collection[str]) -> tuple[str, ...]:
    """The fields of rows that an agent learns from; a pair is also a liked and a disliked answer."""
    if getattr(config, "loss", "") == "kto" and "label" in offered:
        return FEEDBACK
    if getattr(config, "on_policy", 1.0) < 1.0:
        return DEMONSTRATED
    return algorithm.fields


def _use_instead(task: LanguageTask, offered: Collection[str]) -> str:
    able = [
        name
        for name, algorithm in TEXTS.items()
        if all(field in offered for field in fields_for(algorithm, algorithm.defaults(), offered))
        and (task.rewarded or not algorithm.needs_reward)
    ]
    return f"use one of {', '.join(able)}, or other data" if able else "use other data"


def preferences(task: LanguageTask, conversation: Conversation, split: str, *, single: bool) -> Sequence[Any]:
    """Pairs of answers, or with ``single`` answers that were liked or not, where the data has such."""
    rows = task.source.rows(split)
    if single and "label" in rows[0]:
        return data.feedback(rows, task, conversation)
    return data.preferences(rows, task, conversation)
