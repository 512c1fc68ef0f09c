"""The agent loop: the model answers, its environment replies, and so on until that has no more to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gaitway_agents.interfaces import Engine, Sampling
from gaitway_tasks.language.env import TextEnv, ToolEnv

from .conversation import Conversation


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
) -> list[Dialogue]:
    """One dialogue for each prompt, of at most ``max_turns`` answers and ``sampling.max_tokens`` tokens in all.

    ``environments``, one for each, have been reset. What they reply counts towards the tokens and is marked as not
    chosen. A dialogue whose reply does not fit ends unfinished.
    """
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
        going = [(d, env) for d, env in going if _step(d, env, conversation, 0 if last else sampling.max_tokens)]
        if not going:
            if not last:
                engine.generate([], sampling)  # nothing goes on: what was kept for it is memory
            break
    return dialogues


def _step(dialogue: Dialogue, env: TextEnv, conversation: Conversation, max_tokens: int) -> bool:
    """Let the environment take an answer that was not cut; whether the model has the word again."""
    if not dialogue.finished or (not max_tokens and type(env) is ToolEnv):  # nobody would read what tools reply
        return False
    turn = env.step(dialogue.answer)
    dialogue.rewards[-1] = turn.reward
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
