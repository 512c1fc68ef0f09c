"""The reward that a run of a reward model gives."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from gaitway_agents.language.sequences import pad
from gaitway_agents.models.reward_model import RewardModel

from ...errors import RunError
from .data import make_conversation
from .models import Loaded, language_run, load_run

BATCH = 64


@functools.cache
def reward_model(run: str) -> Loaded:
    """The reward model of a run, loaded once."""
    loaded = load_run(language_run(Path(run)))
    if not isinstance(loaded.model, RewardModel):
        raise RunError(f"{run} is no run of a reward model: train one with --agent reward-model")
    loaded.model.requires_grad_(False)
    return loaded


@torch.no_grad()
def reward_of_run(prompts: Sequence[Any], completions: Sequence[str], *, run: str, **columns: Any) -> list[float]:
    """Scores of the reward model trained in the folder ``run``, for answers to prompts (texts or messages)."""
    loaded = reward_model(run)
    model, task = loaded.model, loaded.task
    assert isinstance(model, RewardModel) and task is not None
    conversation = make_conversation(task, loaded.tokenizer)
    sequences = []
    tools = columns.get("tools") or [None] * len(prompts)
    for prompt, completion, told in zip(prompts, completions, tools, strict=True):
        tokens = torch.tensor([*conversation.prompt(prompt, told or ()), *conversation.answer(completion)])
        sequences.append((tokens, torch.ones(len(tokens))))
    device, found = next(model.parameters()).device, []
    for first in range(0, len(sequences), BATCH):
        tokens, lengths, _ = pad(sequences[first : first + BATCH], device)
        found += model.score(tokens, lengths).tolist()
    return found
