"""Demonstrations and preferences of a task in tokens, each row checked when they are built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gaitway_tasks.language.rows import Row, RowError, place_of
from gaitway_tasks.language.spec import LanguageTask
from torch import Tensor

from .conversation import Conversation, ConversationError
from .world import prompt_tokens

Example = tuple[Tensor, Tensor]
"""Tokens (L,) and the mask (L,) that is 1 where they answer."""


def demonstrations(
    rows: Sequence[Row], task: LanguageTask, conversation: Conversation, *, last_only: bool = False
) -> list[Example]:
    """``prompt`` and ``completion`` of rows, or their ``messages``: where there are several answers, all are learnt.

    ``last_only`` has the last one learnt, as the answer to a prompt.
    """
    if not rows:
        raise RowError(f"{task.name} has no demonstrations: its rows need a field 'completion'")
    return [
        _example(i, row, "completion", task, conversation)
        if last_only or "messages" not in row
        else _whole(i, row, task, conversation)
        for i, row in enumerate(rows)
    ]


def preferences(
    rows: Sequence[Row], task: LanguageTask, conversation: Conversation
) -> list[tuple[Example, Example, float]]:
    """``prompt`` with ``chosen`` and with ``rejected`` of rows, and their ``margin``, 0 without one."""
    if not rows:
        raise RowError(f"{task.name} has no preferences: its rows need 'chosen' and 'rejected'")
    return [
        (
            _example(i, row, "chosen", task, conversation),
            _example(i, row, "rejected", task, conversation),
            float(row.get("margin", 0.0)),
        )
        for i, row in enumerate(rows)
    ]


def feedback(rows: Sequence[Row], task: LanguageTask, conversation: Conversation) -> list[tuple[Example, bool]]:
    """``prompt`` and ``completion`` of rows, and their ``label``: whether the answer was liked."""
    if not rows or any("label" not in row for row in rows):
        raise RowError(f"{task.name} has no feedback: its rows need 'completion' and 'label', true or false")
    return [(_example(i, row, "completion", task, conversation), bool(row["label"])) for i, row in enumerate(rows)]


def _example(number: int, row: Row, field: str, task: LanguageTask, conversation: Conversation) -> Example:
    """A prompt and its answer: text, or a list of messages whose last is the answer's."""
    where = place_of(row, number, task.name)
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
    where = place_of(row, number, task.name)
    try:
        tokens, chosen = conversation.whole(row["messages"], row.get("tools", ()))
    except ConversationError as error:
        raise RowError(f"{where}: {error}") from None
    room = task.max_prompt_tokens + task.max_completion_tokens
    if len(tokens) > room:
        raise RowError(
            f"{where}: its messages have {len(tokens)} tokens, more than task.max_prompt_tokens + "
            f"task.max_completion_tokens = {room}: raise them, or shorten or leave out such rows"
        )
    return torch.tensor(tokens), torch.tensor(chosen, dtype=torch.float32)
