"""The agent loop: the model answers, its environment replies, and so on until that has no more to say."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gaitway_agents.interfaces import Engine, Sampling
from gaitway_tasks.language.env import TextEnv, ToolEnv, Turn
from gaitway_tasks.language.watched import LIMIT, EnvironmentFailedError, Worker, named, watched

from .conversation import Conversation

MAX_REPLY_CHARS = 1_000_000
"""A longer reply is a mistake of its environment: no model reads so much."""


@dataclass
class Dialogue:
    """The tokens after a prompt, and which of them the model chose."""

    prompt: Sequence[int]
    tokens: list[int] = field(default_factory=list)
    chosen: list[bool] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    """Reward of the environment for each token; an answer's is at its last token."""
    finished: bool = False
    """The last answer ended by itself."""
    answer: str = ""
    """Text of the last answer: what rewards look at."""

    @property
    def sequence(self) -> list[int]:
        return [*self.prompt, *self.tokens]


def converse(
    prompts: Sequence[Sequence[int]],
    engine: Engine,
    sampling: Sampling,
    conversation: Conversation,
    environments: Sequence[TextEnv],
    max_turns: int = 1,
    worker: Worker | None = None,
) -> list[Dialogue]:
    """One dialogue for each prompt, of at most ``max_turns`` answers and ``sampling.max_tokens`` tokens in all.

    ``environments``, one for each, have been reset, by ``worker`` where there is one. What they reply counts towards
    the tokens and is marked as not chosen. A dialogue whose reply does not fit ends unfinished. Raises
    :class:`EnvironmentFailedError`.
    """
    if worker is None:
        with Worker(LIMIT) as worker:
            return converse(prompts, engine, sampling, conversation, environments, max_turns, worker)
    dialogues = [Dialogue(prompt) for prompt in prompts]
    going = list(zip(dialogues, environments, strict=True))
    for turn in range(max_turns):
        last = turn + 1 == max_turns
        left = tuple(sampling.max_tokens - len(dialogue.tokens) for dialogue, _ in going)
        drawn = replace(
            sampling,
            max_tokens=max(left, default=sampling.max_tokens),
            limits=left,
            seed=sampling.seed + turn * 1_000_003,
            continued=not last,
        )
        completions = engine.generate([dialogue.sequence for dialogue, _ in going], drawn)
        for (dialogue, _), completion in zip(going, completions, strict=True):
            dialogue.finished = completion.finished
            _say(dialogue, completion.tokens, completion.log_probs)
            dialogue.answer = conversation.opening + conversation.decode(completion.tokens)
        # An answer that was cut is no answer, and nobody would read what tools reply to the last.
        taken = [(d, env) for d, env in going if d.finished and not (last and type(env) is ToolEnv)]
        turns = take_turns(taken, worker)
        room = 0 if last else sampling.max_tokens
        going = [pair for pair, turn in zip(taken, turns, strict=True) if _goes_on(pair[0], turn, conversation, room)]
        if not going:
            if not last:
                engine.generate([], sampling)  # nothing goes on: what was kept for it is memory
            break
    return dialogues


def take_turns(going: Sequence[tuple[Dialogue, TextEnv]], worker: Worker) -> list[Turn]:
    """Turns of all environments after their dialogues' last answers."""
    turns: list[Turn] = watched(
        worker,
        [functools.partial(env.step, dialogue.answer) for dialogue, env in going],
        lambda i: f"step() of {named(going[i][1])}, given the answer {going[i][0].answer[:60]!r},",
    )
    for (dialogue, env), turn in zip(going, turns, strict=True):
        if (wrong := _wrong(turn)) is not None:
            raise EnvironmentFailedError(
                f"step() of {named(env)}, given the answer {dialogue.answer[:60]!r}, returned {wrong}"
            )
    return turns


def _wrong(turn: Any) -> str | None:
    """Fault of what an environment returned."""
    if not isinstance(turn, Turn):
        return f"{type(turn).__name__}: it must return a Turn"
    try:
        finite = math.isfinite(turn.reward)
    except TypeError:
        finite = False
    if not finite:
        return f"the reward {turn.reward!r}: it must be a finite number"
    if turn.reply is not None and not isinstance(turn.reply, str):
        return f"a reply of {type(turn.reply).__name__}: it must be text, or None at the end"
    if turn.reply is not None and len(turn.reply) > MAX_REPLY_CHARS:
        return f"a reply of {len(turn.reply):,} characters: shorten it, to {MAX_REPLY_CHARS:,} at most"
    return None


def _goes_on(dialogue: Dialogue, turn: Turn, conversation: Conversation, max_tokens: int) -> bool:
    """Record a turn; whether the model has the word again."""
    dialogue.rewards[-1] = float(turn.reward)
    if turn.reply is None or not max_tokens:
        return False
    tokens = conversation.reply(turn.reply, turn.role)
    if len(dialogue.tokens) + len(tokens) >= max_tokens:
        dialogue.finished = False
        return False
    _say(dialogue, tokens)
    return True


def _say(dialogue: Dialogue, tokens: Sequence[int], log_probs: Sequence[float] | None = None) -> None:
    """Add tokens: the model's, or, without log-probabilities, another's."""
    dialogue.tokens += tokens
    dialogue.chosen += [log_probs is not None] * len(tokens)
    dialogue.log_probs += [0.0] * len(tokens) if log_probs is None else log_probs
    dialogue.rewards += [0.0] * len(tokens)
