"""Partial rollouts: answers that are drawn in parts, each part with the engine's weights of its time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gaitway_agents.interfaces import Engine, Sampling
from gaitway_files.errors import UserError
from gaitway_tasks.language.rows import Row

from .conversation import Conversation
from .dialogue import Dialogue, say

STATE = ("prompt", "tokens", "log_probs", "versions", "finished")
"""Fields of a dialogue under way that a checkpoint holds; the others follow from them."""


@dataclass
class Rollout:
    """Prompts and their answers, ``group_size`` adjacent ones for each row."""

    rows: list[Row]
    dialogues: list[Dialogue]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of prompts, and answers to each."""
        return len(self.rows), len(self.dialogues) // len(self.rows)

    def state_dict(self) -> dict[str, Any]:
        answers = [{name: getattr(dialogue, name) for name in STATE} for dialogue in self.dialogues]
        return {"rows": [{**row} for row in self.rows], "answers": answers}

    @classmethod
    def of(cls, state: dict[str, Any]) -> Rollout:
        dialogues = []
        for answer in state["answers"]:
            dialogue = Dialogue(answer["prompt"], versions=list(answer["versions"]), finished=answer["finished"])
            say(dialogue, answer["tokens"], answer["log_probs"])
            dialogues.append(dialogue)
        return cls(list(state["rows"]), dialogues)


class PartialRollouts:
    """``ahead`` rollouts under way behind the one that is due (Fu et al. 2025, AReaL; Kimi k1.5 2025).

    Each call finishes the oldest rollout and draws a part of the answers of the ``ahead`` next ones, all in one batch.
    The longest answer is divided into ``ahead + 1`` parts of equal length, so a call takes as many steps as one part
    has tokens, and no call waits for a long answer. The engine may get new weights between calls. It then reads what
    was drawn so far anew, and each part has the log-probabilities and the version of the weights that drew it.

    Parts end after a number of tokens, never at a point in time: the same calls give the same answers.
    """

    def __init__(self, ahead: int, engine: Engine, conversation: Conversation, max_tokens: int):
        self.ahead, self.engine, self.conversation, self.max_tokens = ahead, engine, conversation, max_tokens
        self._longest = max_tokens
        """Tokens of the longest answer of the last finished rollout."""
        self._under_way: deque[Rollout] = deque()

    def __len__(self) -> int:
        """Rollouts under way."""
        return len(self._under_way)

    def next(self, begin: Callable[[], Rollout], sampling: Sampling, version: int) -> Rollout:
        """The oldest rollout, finished; ``begin`` gives prompts with empty answers. ``version`` is the weights'."""
        while len(self._under_way) <= self.ahead:
            begun = begin()
            first = self._under_way[0] if self._under_way else begun
            if begun.shape != first.shape:
                raise UserError(
                    f"{begun.shape[0]} prompts of {begun.shape[1]} answers asked for, but {first.shape[0]} of "
                    f"{first.shape[1]} are under way: a world with partial rollouts cannot change that"
                )
            self._under_way.append(begun)
        part = -(-self._longest // (self.ahead + 1))
        due, *others = self._under_way
        going = [(dialogue, self._left(dialogue)) for dialogue in due.dialogues]
        going += [(dialogue, min(part, self._left(dialogue))) for one in others for dialogue in one.dialogues]
        self._draw([(dialogue, room) for dialogue, room in going if room], sampling, version)
        self._under_way.popleft()
        for dialogue in due.dialogues:
            dialogue.answer = self.conversation.opening + self.conversation.decode(dialogue.tokens)
        self._longest = max(len(dialogue.tokens) for dialogue in due.dialogues)
        return due

    def _left(self, dialogue: Dialogue) -> int:
        """Tokens that an answer may still get."""
        return 0 if dialogue.finished else self.max_tokens - len(dialogue.tokens)

    def _draw(self, going: Sequence[tuple[Dialogue, int]], sampling: Sampling, version: int) -> None:
        if not going:
            return
        rooms = tuple(room for _, room in going)
        drawn = replace(sampling, max_tokens=max(rooms), limits=rooms)
        completions = self.engine.generate([dialogue.sequence for dialogue, _ in going], drawn)
        for (dialogue, _), completion in zip(going, completions, strict=True):
            say(dialogue, completion.tokens, completion.log_probs)
            dialogue.versions += [version] * len(completion.tokens)
            dialogue.finished = completion.finished

    def state_dict(self) -> dict[str, Any]:
        return {"longest": self._longest, "under_way": [rollout.state_dict() for rollout in self._under_way]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._longest = state["longest"]
        self._under_way = deque(Rollout.of(rollout) for rollout in state["under_way"])
