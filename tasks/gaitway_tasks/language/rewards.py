"""Verifiable rewards, in TRL's signature ``func(prompts, completions, **columns)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .answers import final_answer, has_format
from .math_answers import equal


def correctness(
    prompts: Sequence[str],
    completions: Sequence[str],
    *,
    answer: Sequence[str],
    tags_only: bool = False,
    **columns: Any,
) -> list[float]:
    """1 where the final answer (:func:`~gaitway_tasks.language.answers.final_answer`) equals ``answer``, else 0."""
    found = [final_answer(completion, tags_only=tags_only) for completion in completions]
    asked = [index for index, text in enumerate(found) if text is not None]
    verdicts = equal([(str(found[index]), str(answer[index])) for index in asked])
    rewards = [0.0] * len(found)
    for index, verdict in zip(asked, verdicts, strict=True):
        rewards[index] = float(verdict)
    return rewards


def format_reward(prompts: Sequence[str], completions: Sequence[str], **columns: Any) -> list[float]:
    """1 where the answer has its think and answer tags once each, in order, and nothing outside them; else 0."""
    return [float(has_format(completion)) for completion in completions]
