"""Checks of prompts, the same for every engine."""

from __future__ import annotations

from collections.abc import Sequence

from gaitway_files.errors import UserError


def check_prompts(
    prompts: Sequence[Sequence[int]], limits: Sequence[int], *, vocabulary: int, positions: int | None = None
) -> None:
    """ValueError for a prompt that is empty, not of this vocabulary, or too long for ``positions`` with its answer."""
    for row, (prompt, max_tokens) in enumerate(zip(prompts, limits, strict=True)):
        if not prompt:
            raise UserError(f"prompt {row} has no tokens: there is nothing to continue")
        if not 0 <= min(prompt) <= max(prompt) < vocabulary:
            raise UserError(
                f"prompt {row} has a token outside the model's vocabulary of {vocabulary}: its tokeniser is another "
                "model's"
            )
        if positions is not None and len(prompt) + max_tokens > positions:
            raise UserError(
                f"prompt {row} has {len(prompt)} tokens and max_tokens is {max_tokens}, but the model sees {positions} "
                "at most: shorten the prompt or lower max_tokens"
            )
