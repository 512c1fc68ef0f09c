"""Demonstrations and preferences of a task in tokens, each row checked when they are built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gaitway_tasks.language.rows import Row, RowError
from gaitway_tasks.language.spec import LanguageTask
from torch import Tensor

from .conversation import Conversation
from .world import prompt_tokens

Example = tuple[Tensor, Tensor]
"""Tokens (L,) and the mask (L,) that is 1 where they answer."""


class TextDemonstrations:
    """``prompt`` and ``completion`` of rows, or their ``messages``: where there are several answers, all are learnt.

    ``last_only`` has the last one learnt, as the answer to a prompt. Implements
    ``gaitway_agents.language.world.Demonstrations``.
    """

    def __init__(self, rows: Sequence[Row], task: LanguageTask, conversation: Conversation, *, last_only: bool = False):
        self._examples = [
            _example(i, row, "completion", task, conversation)
            if last_only or "messages" not in row
            else _whole(i, row, task, conversation)
            for i, row in enumerate(rows)
        ]
        if not self._examples:
            raise RowError(f"{task.name} has no demonstrations: its rows need a field 'completion'")

    def __len__(self) -> int:
        return len(self._examples)

    def tokens(self, index: int) -> Example:
        return self._examples[index]


class TextPreferences:
    """``prompt``, ``chosen`` and ``rejected`` of rows, and their ``margin``.

    Implements ``gaitway_agents.language.world.Preferences``.
    """

    def __init__(self, rows: Sequence[Row], task: LanguageTask, conversation: Conversation):
        self._pairs = [
            (_example(i, row, "chosen", task, conversation), _example(i, row, "rejected", task, conversation))
            for i, row in enumerate(rows)
        ]
        self._margins = [float(row.get("margin", 0.0)) for row in rows]
        if not self._pairs:
            raise RowError(f"{task.name} has no preferences: its rows need 'chosen' and 'rejected'")

    def __len__(self) -> int:
        return len(self._pairs)

    def pair(self, index: int) -> tuple[Example, Example]:
        return self._pairs[index]

    def margin(self, index: int) -> float:
        return self._margins[index]


class TextFeedback:
    """``prompt`` and ``completion`` of rows, and their ``label``: whether the answer was liked.

    Implements ``gaitway_agents.language.world.Feedback``.
    """

    def __init__(self, rows: Sequence[Row], task: LanguageTask, conversation: Conversation):
        self._examples = [_example(i, row, "completion", task, conversation) for i, row in enumerate(rows)]
        if not self._examples or any("label" not in row for row in rows):
            raise RowError(f"{task.name} has no feedback: its rows need 'completion' and 'label', true or false")
        self._labels = [bool(row["label"]) for row in rows]

    def __len__(self) -> int:
        return len(self._examples)

    def tokens(self, index: int) -> Example:
        return self._examples[index]

    def desirable(self, index: int) -> bool:
        return self._labels[index]


def _example(number: int, row: Row, field: str, task: LanguageTask, conversation: Conversation) -> Example:
    """A prompt and its answer: text, or a list of messages whose last is the answer's."""
    where = f"row {number} of {task.name}"
    if field not in row:
        raise RowError(f"{where} has no field {field!r}: it has {', '.join(row)}")
    answer: Any = row[field]
    if not isinstance(answer, str) and len(answer) != 1:
        raise RowError(f"{where}: {field!r} has {len(answer)} messages: put all but the last into the prompt")
    text = answer if isinstance(answer, str) else answer[0]["content"]
    try:
        prompt = prompt_tokens(row, task, conversation)
    except RowError as error:
        raise RowError(f"{where}: {error}") from None
    completion = conversation.answer(text)
    if len(completion) > task.max_completion_tokens:
        raise RowError(
            f"{where}: the answer {text[:60]!r}... has {len(completion)} tokens, more than task.max_completion_tokens="
            f"{task.max_completion_tokens}: raise that, or shorten or leave out such rows"
        )
    mask = torch.zeros(len(prompt) + len(completion))
    mask[len(prompt) :] = 1.0
    return torch.tensor([*prompt, *completion]), mask


def _whole(number: int, row: Row, task: LanguageTask, conversation: Conversation) -> Example:
    """A conversation with several answers."""
    tokens, chosen = conversation.whole(row["messages"])
    room = task.max_prompt_tokens + task.max_completion_tokens
    if len(tokens) > room:
        raise RowError(
            f"row {number} of {task.name}: its messages have {len(tokens)} tokens, more than task.max_prompt_tokens + "
            f"task.max_completion_tokens = {room}: raise them, or shorten or leave out such rows"
        )
    return torch.tensor(tokens), torch.tensor(chosen, dtype=torch.float32)
