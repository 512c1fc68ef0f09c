"""The agent loop: the model answers, a tool it calls replies, and so on until it has no more to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gaitway_agents.interfaces import Engine, Sampling

from .conversation import Conversation

Tool = Callable[[str], str | None]
"""The tools' reply to an answer; None for an answer that calls no tool."""


@dataclass
class Dialogue:
    """The tokens after a prompt, and which of them the model chose."""

    prompt: Sequence[int]
    tokens: list[int] = field(default_factory=list)
    chosen: list[bool] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
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
    *,
    tools: Tool | None = None,
    max_turns: int = 1,
) -> list[Dialogue]:
    """One dialogue for each prompt, of at most ``max_turns`` answers and ``sampling.max_tokens`` tokens in all.

    What a tool wrote counts towards the tokens and is marked as not chosen. A dialogue whose tool reply does not fit
    ends unfinished.
    """
    dialogues = [Dialogue(prompt) for prompt in prompts]
    going = dialogues
    for turn in range(max_turns):
        last = tools is None or turn + 1 == max_turns
        left = tuple(sampling.max_tokens - len(dialogue.tokens) for dialogue in going)
        drawn = replace(
            sampling,
            max_tokens=max(left, default=sampling.max_tokens),
            limits=left,
            seed=sampling.seed + turn * 1_000_003,
            continued=not last,
        )
        for dialogue, completion in zip(going, engine.generate([d.sequence for d in going], drawn), strict=True):
            dialogue.finished = completion.finished
            dialogue.tokens += completion.tokens
            dialogue.chosen += [True] * len(completion.tokens)
            dialogue.log_probs += completion.log_probs
            dialogue.answer = conversation.opening + conversation.decode(completion.tokens)
        if tools is None or last:
            break
        going = [d for d in going if d.finished and _reply(d, tools, conversation, sampling.max_tokens)]
        if not going:
            engine.generate([], sampling)  # nothing goes on: what was kept for it is memory
            break
    return dialogues


def _reply(dialogue: Dialogue, tools: Tool, conversation: Conversation, max_tokens: int) -> bool:
    """Let a tool answer if the model called one; whether the model has the word again."""
    text = tools(dialogue.answer)
    if text is None:
        return False
    tokens = conversation.result(text)
    if len(dialogue.tokens) + len(tokens) >= max_tokens:
        dialogue.finished = False
        return False
    dialogue.tokens += tokens
    dialogue.chosen += [False] * len(tokens)
    dialogue.log_probs += [0.0] * len(tokens)
    return True
