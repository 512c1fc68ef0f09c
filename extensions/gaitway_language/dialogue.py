"""The agent loop: the model answers, its environment replies, and so on until that has no more to say."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gaitway_agents.interfaces import Completion, Engine, Sampling
from gaitway_tasks.language.env import TextEnv, ToolEnv, Turn
from gaitway_tasks.language.watched import LIMIT, EnvironmentFailedError, Workers, explained, named, watched

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
    versions: list[int] = field(default_factory=list)
    """Weights that drew each token; empty unless the answer is drawn in several parts."""
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
    workers: Workers | None = None,
) -> list[Dialogue]:
    """One dialogue for each prompt, of at most ``max_turns`` answers and ``sampling.max_tokens`` tokens in all.

    ``environments``, one for each, have been reset, by ``workers`` where there are any, with their index as owner. What
    they reply counts towards the tokens and is marked as not chosen. A dialogue whose reply does not fit ends
    unfinished. All take each turn together, unless the engine is ``asynchronous``. Raises
    :class:`EnvironmentFailedError`.
    """
    if workers is None:
        with Workers(LIMIT) as workers:
            return converse(prompts, engine, sampling, conversation, environments, max_turns, workers)
    dialogues = [Dialogue(prompt) for prompt in prompts]
    pairs = dict(enumerate(zip(dialogues, environments, strict=True)))
    if getattr(engine, "asynchronous", False) and max_turns > 1:
        one_by_one: Any = engine
        replies = Replies(pairs, conversation, sampling.max_tokens, max_turns, workers)
        one_by_one.converse(prompts, sampling, replies)
        return dialogues
    going = list(pairs)
    for turn in range(max_turns):
        last = turn + 1 == max_turns
        left = tuple(sampling.max_tokens - len(dialogues[i].tokens) for i in going)
        drawn = replace(
            sampling,
            max_tokens=max(left, default=sampling.max_tokens),
            limits=left,
            seed=sampling.seed + turn * 1_000_003,
            continued=not last,
        )
        completions = engine.generate([dialogues[i].sequence for i in going], drawn)
        for i, completion in zip(going, completions, strict=True):
            _answer(dialogues[i], completion, conversation)
        taken = [i for i in going if _is_replied_to(*pairs[i], last)]
        turns = watched(
            workers,
            {i: functools.partial(environments[i].step, dialogues[i].answer) for i in taken},
            lambda i: _step_of(*pairs[i]),
        )
        room = 0 if last else sampling.max_tokens
        going = [i for i in taken if _goes_on(*pairs[i], turns[i], conversation, room)]
        if not going:
            if not last:
                engine.generate([], sampling)  # nothing goes on: what was kept for it is memory
            break
    return dialogues


class Replies:
    """What environments reply to answers, in the order in which it comes. True while any is outstanding."""

    def __init__(
        self,
        pairs: Mapping[int, tuple[Dialogue, TextEnv]],
        conversation: Conversation,
        max_tokens: int,
        max_turns: int,
        workers: Workers,
    ):
        self.pairs, self.conversation, self.workers = pairs, conversation, workers
        self.max_tokens, self.max_turns = max_tokens, max_turns
        self._answers = Counter[int]()
        self._outstanding = 0

    def __bool__(self) -> bool:
        return self._outstanding > 0

    def send(self, index: int, completion: Completion) -> None:
        """Take the answer of a dialogue."""
        dialogue, env = self.pairs[index]
        _answer(dialogue, completion, self.conversation)
        self._answers[index] += 1
        if _is_replied_to(dialogue, env, self._answers[index] == self.max_turns):
            self.workers.submit(index, functools.partial(env.step, dialogue.answer))
            self._outstanding += 1

    def come(self, *, wait: bool) -> dict[int, list[int]]:
        """Tokens that dialogues read before their next answer; with ``wait``, of one at least while any goes on."""
        found: dict[int, list[int]] = {}
        with explained(self.workers, lambda i: _step_of(*self.pairs[i])):
            while self and (came := self.workers.next(wait=wait and not found)) is not None:
                index, turn = came
                self._outstanding -= 1
                dialogue, env = self.pairs[index]
                begin = len(dialogue.tokens)
                room = 0 if self._answers[index] == self.max_turns else self.max_tokens
                if _goes_on(dialogue, env, turn, self.conversation, room):
                    found[index] = dialogue.tokens[begin:]
        return found


def _answer(dialogue: Dialogue, completion: Completion, conversation: Conversation) -> None:
    """Record what the model said."""
    dialogue.finished = completion.finished
    say(dialogue, completion.tokens, completion.log_probs)
    dialogue.answer = conversation.opening + conversation.decode(completion.tokens)


def _is_replied_to(dialogue: Dialogue, env: TextEnv, last: bool) -> bool:
    """False for an answer that was cut, which is none, and for calls of tools in the last, whose reply nobody reads."""
    return dialogue.finished and not (last and type(env) is ToolEnv)


def _step_of(dialogue: Dialogue, env: TextEnv) -> str:
    return f"step() of {named(env)}, given the answer {dialogue.answer[:60]!r},"


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


def _goes_on(dialogue: Dialogue, env: TextEnv, turn: Any, conversation: Conversation, max_tokens: int) -> bool:
    """Check and record a turn; whether the model has the word again."""
    if (wrong := _wrong(turn)) is not None:
        raise EnvironmentFailedError(f"{_step_of(dialogue, env)} returned {wrong}")
    dialogue.rewards[-1] = float(turn.reward)
    if turn.reply is None or not max_tokens:
        return False
    tokens = conversation.reply(turn.reply, turn.role)
    if len(dialogue.tokens) + len(tokens) >= max_tokens:
        dialogue.finished = False
        return False
    say(dialogue, tokens)
    return True


def say(dialogue: Dialogue, tokens: Sequence[int], log_probs: Sequence[float] | None = None) -> None:
    """Add tokens: the model's, or, without log-probabilities, another's."""
    dialogue.tokens += tokens
    dialogue.chosen += [log_probs is not None] * len(tokens)
    dialogue.log_probs += [0.0] * len(tokens) if log_probs is None else log_probs
    dialogue.rewards += [0.0] * len(tokens)
